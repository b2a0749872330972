import { defineHandler } from 'nitro/h3'

export default defineHandler((event) => {
  event.res.headers.set('x-from-middleware', 'passed')
})
