import { env } from '$env/dynamic/private'

export const load = ({ request, cookies, locals }) => {
  cookies.set('visited', 'yes', { path: '/visitor', secure: false })
  return {
    who: cookies.get('who') ?? 'nobody',
    agent: request.headers.get('user-agent'),
    note: locals.note,
    secret: env['SERVER_SECRET'],
  }
}
