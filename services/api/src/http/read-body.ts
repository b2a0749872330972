import type { IncomingMessage } from 'node:http'
import { inviteBody } from '@platform/service/http-server'
import { ApiError, BadRequest, PayloadTooLarge, ValidationFailed } from '@platform/errors/api-error'

/** Enough for the largest JSON of the API: a variable of 64 KiB in which every character is escaped. */
const BODY_BYTES_MAX = 512 * 1_024

/** The whole body as text. Throws PayloadTooLarge as soon as it is known to be, and BadRequest for broken UTF-8. */
export async function readText(incoming: IncomingMessage): Promise<string> {
  if (Number(incoming.headers['content-length'] ?? 0) > BODY_BYTES_MAX) throw new PayloadTooLarge(BODY_BYTES_MAX)
  inviteBody(incoming)
  const chunks: Buffer[] = []
  let length = 0
  try {
    for await (const chunk of incoming as AsyncIterable<Buffer>) {
      length += chunk.length
      if (length > BODY_BYTES_MAX) throw new PayloadTooLarge(BODY_BYTES_MAX)
      chunks.push(chunk)
    }
  } catch (error) {
    // Nothing but the client breaks a body: its reset is no failure of ours.
    throw error instanceof ApiError ? error : new BadRequest('The body ended early')
  }
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(chunks.length === 1 ? chunks[0] : Buffer.concat(chunks))
  } catch {
    throw new BadRequest('The body is not valid UTF-8')
  }
}

/** The body's media type, in lower case and without parameters. */
export const mediaType = (incoming: IncomingMessage): string =>
  (incoming.headers['content-type'] ?? '').split(';', 1)[0]?.trim().toLowerCase() ?? ''

/** The JSON body. Wrong content type 422, malformed 400 (D15, D18, D19). */
export async function readJson(incoming: IncomingMessage): Promise<unknown> {
  const type = mediaType(incoming)
  const text = await readText(incoming)
  if (type !== 'application/json') {
    const message = 'Expected Content-Type: application/json'
    const found = incoming.headers['content-type']?.slice(0, 200) ?? null
    throw new ValidationFailed('headers', [
      { property: '/content-type', message, summary: message, expected: 'application/json', found },
    ])
  }
  try {
    return JSON.parse(text) as unknown
  } catch {
    throw new BadRequest('The body is not valid JSON')
  }
}
