import type { IncomingMessage } from 'node:http'
import { ApiError, BadRequest, PayloadTooLarge } from '@platform/errors/api-error'
import { inviteBody } from './http-server.ts'

/**
 * Reads a whole body that is small by nature.
 *
 * Throws PayloadTooLarge as soon as it is known to exceed bytesMax: by its Content-Length before a byte is read, or by
 * counting. Throws BadRequest when the client leaves in the middle of it.
 */
export async function readBody(incoming: IncomingMessage, bytesMax: number): Promise<Buffer> {
  if (Number(incoming.headers['content-length'] ?? 0) > bytesMax) throw new PayloadTooLarge(bytesMax)
  inviteBody(incoming)
  const chunks: Buffer[] = []
  let length = 0
  try {
    for await (const chunk of incoming as AsyncIterable<Buffer>) {
      length += chunk.length
      if (length > bytesMax) throw new PayloadTooLarge(bytesMax)
      chunks.push(chunk)
    }
  } catch (error) {
    // Nothing but the client breaks a body: its reset is no failure of ours.
    throw error instanceof ApiError ? error : new BadRequest('The body ended early')
  }
  return chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks)
}

/** The media type of a Content-Type header, in lower case and without parameters. */
export const mediaTypeOf = (contentType: string): string => contentType.split(';', 1)[0]?.trim().toLowerCase() ?? ''

/** The body's media type; empty where the request names none. */
export const mediaType = (incoming: IncomingMessage): string => mediaTypeOf(incoming.headers['content-type'] ?? '')
