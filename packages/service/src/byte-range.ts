/** First and last byte, both included. */
export interface ByteRange {
  start: number
  end: number
}

/**
 * Reads a Range header for a representation of `length` bytes (RFC 9110 §14.2). Returns undefined to send all of it: no range,
 * several, a malformed one, or another unit. Returns 'unsatisfiable' if the range lies outside. Positions have any number of
 * digits (§14.1.2): a last one beyond the end stands for the end.
 */
export function readRange(header: string | undefined, length: number): ByteRange | 'unsatisfiable' | undefined {
  const parts = /^bytes=(\d*)-(\d*)$/.exec(header?.trim() ?? '')
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
