import { createServer, type ServerResponse } from 'node:http'
import { readSettings } from './settings.ts'

// An AI provider that costs as little as one can: its answers are made once, and of a request it looks only for what it wants.

const { port } = readSettings()
const CHUNKS = 20
const usage = { prompt_tokens: 24, completion_tokens: 20, total_tokens: 44 }
const names = { id: 'chatcmpl-bench', created: 1_790_000_000, model: 'bench' }

const content = 'A sentence of an answer that says little and is as long as such sentences are. '.repeat(4)
const completion = Buffer.from(
  JSON.stringify({
    ...names,
    object: 'chat.completion',
    choices: [{ index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' }],
    usage,
  }),
)
const jsonHeaders = { 'content-type': 'application/json', 'content-length': completion.length }

const event = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`
const chunk = (text: string, reason: string | null): string =>
  event({
    ...names,
    object: 'chat.completion.chunk',
    choices: [{ index: 0, delta: { role: 'assistant', content: text }, finish_reason: reason }],
    usage: null,
  })
const middle = Buffer.from(chunk(' word', null))
const ending = `${event({ ...names, object: 'chat.completion.chunk', choices: [], usage })}data: [DONE]\n\n`
const last = Buffer.from(chunk(' end', 'stop') + ending)
const streamHeaders = { 'content-type': 'text/event-stream; charset=utf-8' }

/** Writes a chunk every so many milliseconds, the first at once. timed: each says when it was written. */
function stream(outgoing: ServerResponse, everyMs: number, isTimed: boolean): void {
  outgoing.writeHead(200, streamHeaders)
  let written = 0
  const write = () => {
    written++
    const isLast = written === CHUNKS
    if (isTimed) {
      const now = `@${performance.timeOrigin + performance.now()}@`
      outgoing.write(isLast ? chunk(now, 'stop') + ending : chunk(now, null))
    } else outgoing.write(isLast ? last : middle)
    if (!isLast) return
    clearInterval(timer)
    outgoing.end()
  }
  const timer = setInterval(write, everyMs)
  outgoing.on('close', () => clearInterval(timer))
  write()
}

createServer((incoming, outgoing) => {
  const chunks: Buffer[] = []
  incoming.on('data', (each: Buffer) => chunks.push(each))
  incoming.on('end', () => {
    const body = chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks)
    if (!body.includes('"stream":true')) outgoing.writeHead(200, jsonHeaders).end(completion)
    else if (body.includes('"bench-slow"')) stream(outgoing, 250, true)
    else stream(outgoing, 5, false)
  })
}).listen(port, '127.0.0.1')
