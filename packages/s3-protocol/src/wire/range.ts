import { type ByteRange, readRange } from '@platform/service/byte-range'
import { s3Failure } from './s3-failure.ts'

const invalid = (range: string, length: number) =>
  s3Failure('InvalidRange', undefined, { RangeRequested: range.slice(0, 100), ActualObjectSize: String(length) })

/** Returns the requested range; undefined: the whole object. Throws InvalidRange for a range outside the object. */
export function requireRange(header: string | undefined, length: number): ByteRange | undefined {
  const range = readRange(header, length)
  if (range === 'unsatisfiable') throw invalid(header ?? '', length)
  return range
}

/** Reads x-amz-copy-source-range: both ends are required and must lie within the source. Throws InvalidArgument, InvalidRange. */
export function readCopyRange(header: string, length: number): ByteRange {
  const [, from, to] = /^bytes=(\d+)-(\d+)$/.exec(header.trim()) ?? []
  if (from === undefined || to === undefined || Number(to) < Number(from))
    throw s3Failure('InvalidArgument', 'x-amz-copy-source-range must be bytes=first-last')
  if (Number(to) >= length) throw invalid(header, length)
  return { start: Number(from), end: Number(to) }
}
