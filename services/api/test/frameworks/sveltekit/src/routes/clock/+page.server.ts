export const config = { isr: { expiration: 2, allowQuery: ['q'] } }

export const load = ({ request, url }) => ({
  time: Date.now(),
  seen: JSON.stringify({
    cookie: request.headers.get('cookie'),
    agent: request.headers.get('user-agent'),
    q: url.searchParams.get('q'),
  }),
})
