import { StringDecoder } from 'node:string_decoder'

/** Maximum length of a log line. */
export const LINE_BYTES_MAX = 4_096
/** Ends a line that was cut. */
export const CUT_MARK = ' … (cut)'

/** Makes text storable in Postgres, which accepts no NUL and no lone surrogates. */
export const storableText = (text: string): string => text.replaceAll('\0', '\u{fffd}').toWellFormed()

/** Makes a log line storable: cut to 4 KiB at a character boundary, without NUL. */
export function storableLine(line: string): string {
  const text = storableText(line)
  if (Buffer.byteLength(text) <= LINE_BYTES_MAX) return text
  const head = new StringDecoder('utf8').write(
    Buffer.from(text).subarray(0, LINE_BYTES_MAX - Buffer.byteLength(CUT_MARK)),
  )
  return head + CUT_MARK
}
