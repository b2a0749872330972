import { defineHandler } from 'nitro/h3'

export default defineHandler(async (event) => `${event.req.method} ${await event.req.text()}`)
