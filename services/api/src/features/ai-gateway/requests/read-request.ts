import type { IncomingMessage } from 'node:http'
import { AiError } from '@platform/errors/ai-error'
import { BadRequest, PayloadTooLarge, ValidationFailed } from '@platform/errors/api-error'
import { inviteBody } from '@platform/service/http-server'
import { mediaType } from '@platform/service/read-body'
import { liftBodyLimit } from '../../../http/limit-body.ts'

/** How long a body may be silent, and how long it may take altogether. */
const SILENT_MS = 30_000
const BODY_MS = 300_000

/** Closes the connection behind the answer, since the rest of the body is not read. */
const closing = { headers: { connection: 'close' } }

const requestTooLarge = (bytesMax: number): AiError =>
  new AiError(413, 'invalid_request_error', 'request_too_large', new PayloadTooLarge(bytesMax).message, closing)

/** Throws the 413 of a body that says it is too large. */
export function requireSize({ headers }: IncomingMessage, bytesMax: number): void {
  if (Number(headers['content-length'] ?? 0) > bytesMax) throw requestTooLarge(bytesMax)
}

const bodyTooSlow = () =>
  new AiError(408, 'invalid_request_error', 'request_timeout', 'The body did not arrive in time', closing)

/**
 * Hands over a body chunk by chunk, within the time that bodies of the AI gateway have. Throws what `onChunk` throws, AiError
 * for a body that is too large or too slow, and BadRequest where the client leaves in the middle of it.
 */
export async function receiveBody(
  incoming: IncomingMessage,
  bytesMax: number,
  onChunk: (chunk: Buffer) => void,
): Promise<void> {
  requireSize(incoming, bytesMax)
  liftBodyLimit(incoming)
  inviteBody(incoming)
  if (incoming.complete && !incoming.readableFlowing) {
    // Most bodies came with their head. Nothing is left to wait for.
    const whole = incoming.read() as Buffer | null
    if (incoming.destroyed) throw new BadRequest('The body ended early')
    if (!whole) return
    if (whole.length > bytesMax) throw requestTooLarge(bytesMax)
    onChunk(whole)
    return
  }
  await new Promise<void>((resolve, reject) => {
    let length = 0
    const silence = setTimeout(() => end(bodyTooSlow()), SILENT_MS)
    const limit = setTimeout(() => end(bodyTooSlow()), BODY_MS)
    const end = (failure?: Error) => {
      clearTimeout(silence)
      clearTimeout(limit)
      incoming.off('data', take).off('end', end).off('error', leave).off('close', leave).pause()
      if (failure) reject(failure)
      else resolve()
    }
    const leave = () => end(new BadRequest('The body ended early'))
    const take = (chunk: Buffer) => {
      silence.refresh()
      length += chunk.length
      try {
        if (length > bytesMax) throw requestTooLarge(bytesMax)
        onChunk(chunk)
      } catch (error) {
        end(error as Error)
      }
    }
    incoming
      .on('data', take)
      .once('end', () => end())
      .once('error', leave)
      .once('close', leave)
  })
}

/** Throws the 422 of a content type that the operation does not take. */
export function requireType(incoming: IncomingMessage, types: readonly string[]): string {
  const type = mediaType(incoming)
  if (types.includes(type)) return type
  const message = `Expected Content-Type: ${types.join(' or ')}`
  const found = incoming.headers['content-type']?.slice(0, 200) ?? null
  throw new ValidationFailed('headers', [
    { property: '/content-type', message, summary: message, expected: types.join(' or '), found },
  ])
}

const invalidJson = (message: string) => new AiError(400, 'invalid_request_error', 'invalid_json', message)

/** Far above any body there is, and below what JSON.stringify and all others who walk through a value can take. */
const DEPTH_MAX = 500
const ELEMENTS_MAX = 1_000_000
/** A body from this size on is looked through before it is parsed. */
const LARGE_BYTES = 1_048_576
const [QUOTE, BACKSLASH, COMMA] = [0x22, 0x5c, 0x2c]
/** Of `[` and `{`, and of `]` and `}`: these differ in one bit alone. */
const [OPENS, CLOSES, CASE_BIT] = [0x5b, 0x5d, 0x20]

const tooDeep = () => invalidJson(`The body is nested more than ${DEPTH_MAX} deep`)

/**
 * Throws AiError for a body that is nested too deep, or has so many elements that a process could not hold a few such bodies: an
 * empty array of three bytes takes fifty.
 */
function requireModest(body: Buffer): void {
  let depth = 0
  let elements = 0
  for (let n = 0; n < body.length; n++) {
    const byte = body[n] as number
    if (byte === QUOTE) {
      while (++n < body.length && body[n] !== QUOTE) if (body[n] === BACKSLASH) n++
    } else if (byte === COMMA) elements++
    else if ((byte & ~CASE_BIT) === OPENS) {
      elements++
      if (++depth > DEPTH_MAX) throw tooDeep()
    } else if ((byte & ~CASE_BIT) === CLOSES) depth--
    if (elements > ELEMENTS_MAX) throw invalidJson(`The body has more than ${ELEMENTS_MAX} elements`)
  }
}

/** True if JSON is nested deeper than that. */
function isDeeper(value: unknown, depth: number): boolean {
  if (typeof value !== 'object' || value === null) return false
  if (depth === 0) return true
  if (Array.isArray(value)) {
    for (const element of value) if (isDeeper(element, depth - 1)) return true
    return false
  }
  // Of parsed JSON all members are its own. Object.values would take twice the time.
  for (const name in value) if (isDeeper((value as Record<string, unknown>)[name], depth - 1)) return true
  return false
}

/** The value of a JSON body. Throws AiError with `invalid_json`. */
export function parseJson(body: Buffer): unknown {
  if (body.length >= LARGE_BYTES) requireModest(body)
  let text: string
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(body)
  } catch {
    throw invalidJson('The body is not valid UTF-8')
  }
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw invalidJson('The body is not valid JSON')
  }
  if (body.length > 2 * DEPTH_MAX && body.length < LARGE_BYTES && isDeeper(value, DEPTH_MAX)) throw tooDeep()
  return value
}
