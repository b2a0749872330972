/**
 * Reads the headers of a request as sent, from Node's `rawHeaders`. Names are in lower case; repeated values are joined by a comma,
 * as for signing (SigV4 canonical headers). Values are latin1, byte for byte.
 */
export function readRawHeaders(raw: readonly string[]): Map<string, string> {
  const headers = new Map<string, string>()
  for (let i = 0; i + 1 < raw.length; i += 2) {
    const name = (raw[i] as string).toLowerCase()
    const value = raw[i + 1] as string
    const earlier = headers.get(name)
    headers.set(name, earlier === undefined ? value : `${earlier},${value}`)
  }
  return headers
}

/** True if every character is ASCII. */
// oxlint-disable-next-line no-control-regex -- ASCII, all of it
export const isAscii = (text: string): boolean => /^[\x00-\x7f]*$/.test(text)

/** Decodes a header value: clients send UTF-8, which Node reads as latin1. A value that is not valid UTF-8 is left as latin1. */
export function headerText(value: string): string {
  if (isAscii(value)) return value
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(Buffer.from(value, 'latin1'))
  } catch {
    return value
  }
}
