import { redirect, type Handle } from '@sveltejs/kit'

export const handle: Handle = async ({ event, resolve }) => {
  event.locals.note = 'from the hook'
  if (event.url.pathname === '/hook/answer') return new Response('by the hook', { status: 418 })
  if (event.url.pathname === '/hook/redirect') redirect(307, '/about')
  const response = await resolve(event)
  response.headers.set('x-from-hook', 'passed')
  return response
}
