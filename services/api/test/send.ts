import { randomBytes } from 'node:crypto'
import { Agent, request } from 'node:http'

/** An answer as it came: nothing is followed, decoded by its type or thrown away. */
export interface RawAnswer {
  status: number
  headers: Record<string, string>
  text: string
  /** The parsed text where it is JSON, else undefined. */
  body: unknown
}

export interface RawRequest {
  method: string
  /** Sent as it is: no dot segment is folded and nothing is escaped. */
  path: string
  token?: string | null
  headers?: Record<string, string | string[]>
  body?: string | Buffer | undefined
}

export type Send = (request: RawRequest) => Promise<RawAnswer>

/** An address may send 600 requests in 60 s without a bearer header (A §8). */
const REQUESTS_PER_ADDRESS = 500

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    return undefined
  }
}

/**
 * Sends requests to the byte, which `platform.call` cannot: paths that a URL would fold, headers that are wrong. Connections
 * are kept, `atOnce` of them, and the address changes before its budget is spent. Of an event stream only the head is read.
 */
export function openSender(apiUrl: string, atOnce = 16): { send: Send; close(): void } {
  const agent = new Agent({ keepAlive: true, maxSockets: atOnce })
  const { hostname, port } = new URL(apiUrl)
  const [network = 0, subnet = 0] = randomBytes(2)
  let sent = 0

  const send: Send = ({ method, path, token, headers, body }) =>
    new Promise((resolve, reject) => {
      const n = Math.floor(sent++ / REQUESTS_PER_ADDRESS)
      const outgoing = request({
        agent,
        hostname,
        port,
        method,
        path,
        headers: {
          'x-forwarded-for': `100.${network}.${(subnet + (n >> 8)) & 255}.${n & 255}`,
          ...(typeof token === 'string' && { authorization: `Bearer ${token}` }),
          ...(body !== undefined && { 'content-length': Buffer.byteLength(body) }),
          ...headers,
        },
      })
      outgoing.on('error', reject)
      outgoing.on('response', (incoming) => {
        const head = { status: incoming.statusCode ?? 0, headers: incoming.headers as Record<string, string> }
        if (incoming.headers['content-type']?.startsWith('text/event-stream')) {
          incoming.destroy()
          resolve({ ...head, text: '', body: undefined })
          return
        }
        const chunks: Buffer[] = []
        incoming.on('data', (chunk: Buffer) => chunks.push(chunk))
        incoming.on('error', reject)
        incoming.on('end', () => {
          const text = Buffer.concat(chunks).toString()
          resolve({ ...head, text, body: parsed(text) })
        })
      })
      outgoing.end(body)
    })
  return { send, close: () => agent.destroy() }
}
