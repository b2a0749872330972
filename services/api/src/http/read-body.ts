import type { IncomingMessage } from 'node:http'
import { BadRequest, ValidationFailed } from '@platform/errors/api-error'
import { mediaType, readBody } from '@platform/service/read-body'

/** Enough for a 64 KiB variable in which every character is escaped. */
const BODY_BYTES_MAX = 512 * 1_024

/** Reads the whole body as text. Throws PayloadTooLarge, and BadRequest for broken UTF-8 or a body that ends early. */
export async function readText(incoming: IncomingMessage, bytesMax = BODY_BYTES_MAX): Promise<string> {
  const body = await readBody(incoming, bytesMax)
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(body)
  } catch {
    throw new BadRequest('The body is not valid UTF-8')
  }
}

/** Reads the JSON body. Wrong content type 422, malformed 400 (D15, D18, D19). */
export async function readJson(incoming: IncomingMessage, bytesMax?: number): Promise<unknown> {
  const type = mediaType(incoming)
  const text = await readText(incoming, bytesMax)
  if (type !== 'application/json') {
    const message = 'Expected Content-Type: application/json'
    const contentType = incoming.headers['content-type']?.slice(0, 200) ?? null
    throw new ValidationFailed('headers', [
      { property: '/content-type', message, summary: message, expected: 'application/json', found: contentType },
    ])
  }
  try {
    return JSON.parse(text) as unknown
  } catch {
    throw new BadRequest('The body is not valid JSON')
  }
}
