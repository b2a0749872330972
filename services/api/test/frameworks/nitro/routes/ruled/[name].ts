import { defineHandler } from 'nitro/h3'

export default defineHandler((event) => `ruled ${event.context.params?.name}`)
