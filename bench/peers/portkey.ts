import { readSettings } from './settings.ts'

// Portkey's gateway, as its own command starts it, without its page of logs. It takes its settings from the command line.

const { port } = readSettings()
process.argv.push(`--port=${port}`, '--headless')
await import('@portkey-ai/gateway/build/start-server.js')
