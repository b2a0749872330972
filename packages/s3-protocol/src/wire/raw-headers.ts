/**
 * The headers of a request as they were sent, names in lower case: a name that came twice has its values joined by a
 * comma, as a signature wants them (SigV4 canonical headers). Values are latin1, byte for byte.
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

/** A header's text: what clients send as UTF-8 arrives as latin1. What is no UTF-8 is latin1 after all. */
export function headerText(value: string): string {
  // oxlint-disable-next-line no-control-regex -- ASCII, all of it
  if (/^[\x00-\x7f]*$/.test(value)) return value
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(Buffer.from(value, 'latin1'))
  } catch {
    return value
  }
}
