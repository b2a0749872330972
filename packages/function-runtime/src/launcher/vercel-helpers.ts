import type { IncomingMessage, ServerResponse } from 'node:http'

/** Longer bodies get 413: a handler that accepts more reads the stream, without helpers. */
const bodyBytesMax = 4_718_592

/** The body does not match its content type. */
class BadBody extends Error {}

type Handler = (request: IncomingMessage, response: ServerResponse) => unknown

/**
 * Adds the helpers of Vercel's Node.js runtime if the output asks for them (`shouldAddHelpers`): `query`, `cookies` and
 * `body` of the request, `status`, `send`, `json` and `redirect` of the response. The body has already been read, so the
 * stream is empty.
 */
export function withVercelHelpers(handler: Handler): (...exchange: Parameters<Handler>) => Promise<void> {
  return async (request, response) => {
    const body = await readBody(request)
    if (body === undefined) {
      response.writeHead(413, { 'content-type': 'text/plain' }).end('Body too large')
      return
    }
    addToRequest(request, body)
    addToResponse(response)
    try {
      await handler(request, response)
    } catch (error) {
      if (!(error instanceof BadBody) || response.headersSent) throw error
      response.writeHead(400, { 'content-type': 'text/plain' }).end(error.message)
    }
  }
}

/** undefined if it is too long. */
async function readBody(request: IncomingMessage): Promise<Buffer | undefined> {
  const chunks: Buffer[] = []
  let length = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    length += chunk.length
    // The rest is read as well: closing the connection in the middle would lose the answer.
    if (length <= bodyBytesMax) chunks.push(chunk)
    else chunks.length = 0
  }
  return length <= bodyBytesMax ? Buffer.concat(chunks) : undefined
}

/** Repeated names become lists. */
function gather(pairs: Iterable<[string, string]>): Record<string, string | string[]> {
  const gathered: Record<string, string | string[]> = {}
  for (const [name, value] of pairs) {
    const before = Object.hasOwn(gathered, name) ? gathered[name] : undefined
    const after = before === undefined ? value : [before, value].flat()
    Object.defineProperty(gathered, name, { value: after, enumerable: true, configurable: true, writable: true })
  }
  return gathered
}

function* cookiesOf(header: string): Generator<[string, string]> {
  for (const part of header.split(';')) {
    const [, name = '', value = ''] = /^\s*([^=]+?)\s*=\s*"?(.*?)"?\s*$/.exec(part) ?? []
    if (name === '') continue
    try {
      yield [name, decodeURIComponent(value)]
    } catch {
      yield [name, value]
    }
  }
}

function parseBody(request: IncomingMessage, body: Buffer): unknown {
  const type = request.headers['content-type']?.split(';', 1)[0]?.trim().toLowerCase()
  switch (type) {
    case 'application/json':
      if (body.length === 0) return {}
      try {
        return JSON.parse(body.toString('utf8'))
      } catch {
        throw new BadBody('Invalid JSON')
      }
    case 'application/octet-stream':
      return body
    case 'application/x-www-form-urlencoded':
      return gather(new URLSearchParams(body.toString('utf8')))
    case 'text/plain':
      return body.toString('utf8')
    default:
      return undefined
  }
}

/** Defines a property that is computed on first access, and may be replaced. */
function lazy(target: object, name: string, make: () => unknown): void {
  const set = (value: unknown): void =>
    void Object.defineProperty(target, name, { value, configurable: true, enumerable: true, writable: true })
  Object.defineProperty(target, name, {
    configurable: true,
    enumerable: true,
    get() {
      const value = make()
      set(value)
      return value
    },
    set,
  })
}

function addToRequest(request: IncomingMessage, body: Buffer): void {
  lazy(request, 'query', () => gather(new URL(request.url ?? '/', 'http://a').searchParams))
  lazy(request, 'cookies', () => gather(cookiesOf(request.headers.cookie ?? '')))
  lazy(request, 'body', () => parseBody(request, body))
}

function addToResponse(response: ServerResponse): void {
  const end = (type: string, content: string | Buffer): ServerResponse => {
    if (!response.hasHeader('content-type')) response.setHeader('content-type', type)
    response.setHeader('content-length', Buffer.byteLength(content))
    return response.end(content)
  }
  const json = (value: unknown): ServerResponse =>
    end('application/json; charset=utf-8', JSON.stringify(value) ?? 'null')
  Object.assign(response, {
    status(code: number) {
      response.statusCode = code
      return response
    },
    json,
    send(value: unknown) {
      if (value === null || value === undefined) return response.end()
      if (typeof value === 'string') return end('text/html; charset=utf-8', value)
      return Buffer.isBuffer(value) ? end('application/octet-stream', value) : json(value)
    },
    redirect(...args: [url: string] | [status: number, url: string]) {
      const [status, url] = args.length === 1 ? ([307, args[0]] as const) : args
      response.writeHead(status, { location: url })
      return response.end(`Redirecting to ${url}.`)
    },
  })
}
