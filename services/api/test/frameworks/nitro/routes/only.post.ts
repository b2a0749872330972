import { defineHandler } from 'nitro/h3'

export default defineHandler(async (event) => ({ posted: await event.req.json() }))
