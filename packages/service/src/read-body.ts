import type { IncomingMessage } from 'node:http'
import { ApiError, BadRequest, PayloadTooLarge, RequestTimeout } from '@platform/errors/api-error'
import { withDeadline } from '@platform/runtime/deadline'
import { inviteBody } from './http-server.ts'

/** How long a small body may take to arrive. Below the 30 s of a whole request, whose response would otherwise come first. */
export const BODY_MS = 25_000

/**
 * Reads a small body as a whole.
 *
 * Throws PayloadTooLarge as soon as it is known to exceed bytesMax: by its Content-Length before a byte is read, or by
 * counting. Throws RequestTimeout if it takes longer than bodyMs, and BadRequest if the client disconnects in the middle. The
 * request can still be answered after each of them.
 */
export async function readBody(incoming: IncomingMessage, bytesMax: number, bodyMs = BODY_MS): Promise<Buffer> {
  if (Number(incoming.headers['content-length'] ?? 0) > bytesMax) throw new PayloadTooLarge(bytesMax)
  inviteBody(incoming)
  const tooSlow = () => new RequestTimeout(`The body took longer than ${bodyMs / 1_000} seconds to arrive`)
  return withDeadline(bodyMs, tooSlow, collect(incoming, bytesMax))
}

async function collect(incoming: IncomingMessage, bytesMax: number): Promise<Buffer> {
  const chunks: Buffer[] = []
  let length = 0
  try {
    // By default leaving the loop destroys the connection, and the client would not get the error.
    for await (const chunk of incoming.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
      length += chunk.length
      if (length > bytesMax) throw new PayloadTooLarge(bytesMax)
      chunks.push(chunk)
    }
  } catch (error) {
    // Only the client can break off a body: its reset is not an error of ours.
    throw error instanceof ApiError ? error : new BadRequest('The body ended early')
  }
  return chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks)
}

/** The media type of a Content-Type header, in lower case and without parameters. */
export const mediaTypeOf = (contentType: string): string => contentType.split(';', 1)[0]?.trim().toLowerCase() ?? ''

/** The body's media type; empty if the request names none. */
export const mediaType = (incoming: IncomingMessage): string => mediaTypeOf(incoming.headers['content-type'] ?? '')
