import { defineHandler } from 'nitro/h3'

/** What it sees of who asks: nothing, where its answer is kept. */
export default defineHandler(({ req, url }) => ({
  time: Date.now(),
  cookie: req.headers.get('cookie'),
  agent: req.headers.get('user-agent'),
  query: url.search,
}))
