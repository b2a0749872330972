import { StringDecoder } from 'node:string_decoder'

/** The longest that a line of a log may be. */
export const LINE_BYTES_MAX = 4_096
/** Stands at the end of a line that was longer. */
export const CUT_MARK = ' … (cut)'

/** Text as Postgres stores it, which takes no NUL and no lone surrogates. */
export const storableText = (text: string): string => text.replaceAll('\0', '\u{fffd}').toWellFormed()

/** A line as it can be stored: at most 4 KiB of it, in whole characters and without NUL. */
export function storableLine(line: string): string {
  const text = storableText(line)
  if (Buffer.byteLength(text) <= LINE_BYTES_MAX) return text
  const head = new StringDecoder('utf8').write(
    Buffer.from(text).subarray(0, LINE_BYTES_MAX - Buffer.byteLength(CUT_MARK)),
  )
  return head + CUT_MARK
}
