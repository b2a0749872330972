import { defineMiddleware } from 'astro:middleware'

export const onRequest = defineMiddleware(async (context, next) => {
  const { pathname, searchParams } = context.url
  context.locals.note = 'from the middleware'
  if (pathname === '/live/echo') {
    const wanted = searchParams.get('middleware')
    if (wanted === 'answer') return Response.json({ by: 'middleware' }, { status: 418 })
    if (wanted === 'redirect') return context.redirect('/about', 307)
    if (wanted === 'rewrite') return context.rewrite('/live/form')
  }
  const response = await next()
  response.headers.set('x-from-middleware', 'passed')
  return response
})
