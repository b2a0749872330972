import { s3Failure } from './s3-failure.ts'

/** First and last byte, both included. */
export interface ByteRange {
  start: number
  end: number
}

/**
 * Reads a Range header for a representation of `length` bytes (RFC 9110 §14.2). undefined: send all of it, since there is no
 * range, several, a malformed one, or another unit. 'unsatisfiable': the range lies outside.
 */
export function readRange(header: string | undefined, length: number): ByteRange | 'unsatisfiable' | undefined {
  const parts = /^bytes=(\d{0,15})-(\d{0,15})$/.exec(header?.trim() ?? '')
  if (!parts) return undefined
  const [, from = '', to = ''] = parts
  if (from === '' && to === '') return undefined
  if (from === '') {
    const count = Number(to)
    if (count === 0 || length === 0) return 'unsatisfiable'
    return { start: Math.max(length - count, 0), end: length - 1 }
  }
  const start = Number(from)
  const end = to === '' ? length - 1 : Math.min(Number(to), length - 1)
  if (to !== '' && Number(to) < start) return undefined
  return start >= length ? 'unsatisfiable' : { start, end }
}

const invalid = (range: string, length: number) =>
  s3Failure('InvalidRange', undefined, { RangeRequested: range.slice(0, 100), ActualObjectSize: String(length) })

/** The range that a request asks for; undefined: the whole object. Throws InvalidRange for a range outside the object. */
export function requireRange(header: string | undefined, length: number): ByteRange | undefined {
  const range = readRange(header, length)
  if (range === 'unsatisfiable') throw invalid(header ?? '', length)
  return range
}

/** Reads x-amz-copy-source-range: both ends are required and must lie within the source. Throws InvalidArgument, InvalidRange. */
export function readCopyRange(header: string, length: number): ByteRange {
  const [, from, to] = /^bytes=(\d{1,15})-(\d{1,15})$/.exec(header.trim()) ?? []
  if (from === undefined || to === undefined || Number(to) < Number(from))
    throw s3Failure('InvalidArgument', 'x-amz-copy-source-range must be bytes=first-last')
  if (Number(to) >= length) throw invalid(header, length)
  return { start: Number(from), end: Number(to) }
}
