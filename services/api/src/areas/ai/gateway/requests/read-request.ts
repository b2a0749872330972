import type { IncomingMessage } from 'node:http'
import { excessOf, jsonMax, measureJson } from '@platform/ai-protocols/measure-json'
import { AiError } from '@platform/errors/ai-error'
import { BadRequest, PayloadTooLarge, ValidationFailed } from '@platform/errors/api-error'
import { inviteBody } from '@platform/service/http-server'
import { mediaType } from '@platform/service/read-body'

/** How long a body may be silent, and how long it may take in total. */
const SILENT_MS = 30_000
const BODY_MS = 300_000

/** Closes the connection after the response, since the rest of the body is not read. */
const closing = { headers: { connection: 'close' } }

const requestTooLarge = (bytesMax: number): AiError =>
  new AiError(413, 'invalid_request_error', 'request_too_large', new PayloadTooLarge(bytesMax).message, closing)

/** Throws the 413 for a body whose Content-Length is too large. */
export function requireSize({ headers }: IncomingMessage, bytesMax: number): void {
  if (Number(headers['content-length'] ?? 0) > bytesMax) throw requestTooLarge(bytesMax)
}

const bodyTooSlow = () =>
  new AiError(408, 'invalid_request_error', 'request_timeout', 'The body did not arrive in time', closing)

/** Bytes still read of a rejected body: clients that find the connection closed while sending do not see the reason. */
const DISCARDED_BYTES_MAX = 96 * 1_048_576
const DISCARDED_MS = 10_000
/** A client that sends nothing for this long is waiting for the response. */
const DISCARDED_SILENT_MS = 500

/**
 * Passes on a body chunk by chunk, within the gateway's time limits for bodies. Throws what `onChunk` throws, AiError if the body
 * is too large or too slow, and BadRequest if the client disconnects in the middle. The rest of a rejected body is read first,
 * within limits.
 */
export async function receiveBody(
  incoming: IncomingMessage,
  bytesMax: number,
  onChunk: (chunk: Buffer) => void,
): Promise<void> {
  const announced = Number(incoming.headers['content-length'] ?? 0)
  // A client that sent Expect, or has too much left to send, is rejected at once.
  if (incoming.headers.expect !== undefined || announced > bytesMax + DISCARDED_BYTES_MAX)
    requireSize(incoming, bytesMax)
  inviteBody(incoming)
  if (incoming.complete && !incoming.readableFlowing) {
    // Most bodies arrive with their head, and nothing is left to wait for.
    const whole = incoming.read() as Buffer | null
    if (incoming.destroyed) throw new BadRequest('The body ended early')
    if (!whole) return
    if (whole.length > bytesMax) throw requestTooLarge(bytesMax)
    onChunk(whole)
    return
  }
  await new Promise<void>((resolve, reject) => {
    let length = 0
    let refusal: Error | undefined
    const silence = setTimeout(() => end(bodyTooSlow()), SILENT_MS)
    const limit = setTimeout(() => end(bodyTooSlow()), BODY_MS)
    let discarding: NodeJS.Timeout | undefined
    let quiet: NodeJS.Timeout | undefined
    const end = (failure = refusal) => {
      for (const timer of [silence, limit, discarding, quiet]) clearTimeout(timer)
      incoming.off('data', take).off('end', finish).off('error', leave).off('close', leave).pause()
      if (failure) reject(failure)
      else resolve()
    }
    const finish = () => end()
    const leave = () => end(refusal ?? new BadRequest('The body ended early'))
    const refuse = (error: Error) => {
      refusal = error
      discarding = setTimeout(finish, DISCARDED_MS)
      quiet = setTimeout(finish, DISCARDED_SILENT_MS)
    }
    const take = (chunk: Buffer) => {
      silence.refresh()
      length += chunk.length
      if (refusal) {
        quiet?.refresh()
        if (length > bytesMax + DISCARDED_BYTES_MAX) finish()
        return
      }
      try {
        if (length > bytesMax) throw requestTooLarge(bytesMax)
        onChunk(chunk)
      } catch (error) {
        refuse(error as Error)
      }
    }
    if (announced > bytesMax) refuse(requestTooLarge(bytesMax))
    incoming.on('data', take).once('end', finish).once('error', leave).once('close', leave)
  })
}

/** Returns the media type. Throws the 422 if the operation does not accept it. */
export function requireType(incoming: IncomingMessage, types: readonly string[]): string {
  const type = mediaType(incoming)
  if (types.includes(type)) return type
  const message = `Expected Content-Type: ${types.join(' or ')}`
  const contentType = incoming.headers['content-type']?.slice(0, 200) ?? null
  throw new ValidationFailed('headers', [
    { property: '/content-type', message, summary: message, expected: types.join(' or '), found: contentType },
  ])
}

const invalidJson = (message: string) => new AiError(400, 'invalid_request_error', 'invalid_json', message)

const excesses: Readonly<Record<keyof typeof jsonMax, string>> = {
  depth: `is nested more than ${jsonMax.depth} deep`,
  elements: `has more than ${jsonMax.elements} elements`,
  members: `has more than ${jsonMax.members} members`,
  membersOfOne: `has an object of more than ${jsonMax.membersOfOne} members`,
}

/** Parses a JSON body. Throws AiError with `invalid_json`. */
export function parseJson(body: Buffer): unknown {
  const excess = excessOf(measureJson(body))
  if (excess) throw invalidJson(`The body ${excesses[excess]}`)
  let text: string
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(body)
  } catch {
    throw invalidJson('The body is not valid UTF-8')
  }
  try {
    return JSON.parse(text)
  } catch {
    throw invalidJson('The body is not valid JSON')
  }
}
