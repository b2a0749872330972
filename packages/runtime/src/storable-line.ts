import { StringDecoder } from 'node:string_decoder'

/** The longest that a line of a log may be. */
export const LINE_BYTES_MAX = 4_096
/** Stands at the end of a line that was longer. */
export const CUT_MARK = ' … (cut)'

/** Postgres takes no NUL in text. */
const printable = (text: string): string => text.replaceAll('\0', '\u{fffd}').toWellFormed()

/** A line as it can be stored: at most 4 KiB of it, in whole characters and without NUL. */
export function storableLine(line: string): string {
  const text = printable(line)
  if (Buffer.byteLength(text) <= LINE_BYTES_MAX) return text
  const head = new StringDecoder('utf8').write(
    Buffer.from(text).subarray(0, LINE_BYTES_MAX - Buffer.byteLength(CUT_MARK)),
  )
  return head + CUT_MARK
}
