import { Readable } from 'node:stream'
import { http } from './node-http.ts'

/** Statuses without a response body. */
const BODILESS = [101, 204, 205, 304]

/**
 * Sends a request to a server behind a Unix socket. more: additional headers. Does not follow redirects. Rejects if the
 * socket fails.
 */
export function fetchBySocket(
  socketPath: string,
  request: Request,
  more: Record<string, string> = {},
): Promise<Response> {
  const url = new URL(request.url)
  return new Promise((resolve, reject) => {
    const outgoing = http.request(
      {
        socketPath,
        method: request.method,
        path: url.pathname + url.search,
        headers: { ...Object.fromEntries(request.headers), host: url.host, ...more },
        signal: request.signal,
      },
      (incoming) => {
        const headers = new Headers()
        for (let index = 0; index < incoming.rawHeaders.length; index += 2) {
          headers.append(incoming.rawHeaders[index] ?? '', incoming.rawHeaders[index + 1] ?? '')
        }
        const status = incoming.statusCode ?? 502
        const hasBody = request.method !== 'HEAD' && !BODILESS.includes(status)
        if (!hasBody) incoming.resume()
        resolve(new Response(hasBody ? (Readable.toWeb(incoming) as ReadableStream) : null, { status, headers }))
      },
    )
    outgoing.on('error', reject)
    if (request.body === null) outgoing.end()
    else Readable.fromWeb(request.body).on('error', reject).pipe(outgoing)
  })
}
