import { defineNitroErrorHandler } from 'nitro/runtime'

export default defineNitroErrorHandler((error) =>
  Response.json({ by: 'the fixture', status: error.status }, { status: error.status }),
)
