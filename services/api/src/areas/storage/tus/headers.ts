import type { IncomingMessage } from 'node:http'
import { PayloadTooLarge } from '@platform/errors/api-error'
import { header } from '../../../http/exchange.ts'
import type { BodyChecksum } from '../uploads/append-body.ts'
import { OBJECT_BYTES_MAX } from '../uploads/uploads.ts'
import { tusError } from './errors.ts'
import { CHECKSUM_ALGORITHMS } from './protocol.ts'

/** Reads a header that MUST be a non-negative integer; undefined if absent. Throws 400. */
function readByteCount(incoming: IncomingMessage, name: string): number | undefined {
  const text = header(incoming, name)
  if (text === undefined) return undefined
  if (!/^\d{1,15}$/.test(text)) throw tusError('MalformedLength', `${name} is not a number of bytes`)
  return Number(text)
}

/** Upload-Offset: the byte at which the body starts. Throws 400. */
export const readUploadOffset = (incoming: IncomingMessage): number | undefined =>
  readByteCount(incoming, 'upload-offset')

/** Upload-Length: the bytes of the whole upload. Throws 400. */
export const readUploadLength = (incoming: IncomingMessage): number | undefined =>
  readByteCount(incoming, 'upload-length')

/** Throws 413, which MUST be the status beyond Tus-Max-Size. */
export function requirePossibleLength(length: number): void {
  if (length > OBJECT_BYTES_MAX) throw new PayloadTooLarge(OBJECT_BYTES_MAX)
}

/**
 * The length of a new upload: either Upload-Length or Upload-Defer-Length: 1 MUST be sent; null if deferred. A concatenation
 * needs neither: it is as long as its parts. Throws 400, 413.
 */
export function readCreationLength(incoming: IncomingMessage, concat: Concat | undefined): number | null {
  const isDeferred = header(incoming, 'upload-defer-length') === '1'
  const length = readUploadLength(incoming)
  if (concat?.kind !== 'final' && (length === undefined) !== isDeferred) throw tusError('LengthMissing')
  requirePossibleLength(length ?? 0)
  return length ?? null
}

/** Upload-Checksum: MUST be the name of an algorithm, a space, and the checksum in base64. Throws 400. */
export function readChecksum(incoming: IncomingMessage): BodyChecksum | undefined {
  const text = header(incoming, 'upload-checksum')
  if (text === undefined) return undefined
  const [name = '', encoded = ''] = text.trim().split(/ +/)
  const algorithm = CHECKSUM_ALGORITHMS.find((known) => known === name)
  if (!algorithm) throw tusError('UnsupportedChecksum')
  return { algorithm, value: Buffer.from(encoded, 'base64') }
}

/** The role of a new upload in a concatenation: a part, or the whole, made of the parts at these URLs, in order. */
type Concat = { kind: 'partial' } | { kind: 'final'; urls: string[] }

/** Upload-Concat: MUST be `partial`, or `final;` and URLs separated by spaces; undefined if absent. Throws 400. */
export function readConcat(text: string | undefined): Concat | undefined {
  if (text === undefined) return undefined
  if (text === 'partial') return { kind: 'partial' }
  if (!text.startsWith('final;')) throw tusError('MalformedConcat')
  const urls = text
    .slice('final;'.length)
    .split(' ')
    .filter((url) => url !== '')
  return { kind: 'final', urls }
}
