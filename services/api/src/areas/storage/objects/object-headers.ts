import type { ObjectHeaders } from './table.ts'

/** System metadata by header name. */
export const systemHeaders = Object.entries({
  'cache-control': 'cacheControl',
  'content-disposition': 'contentDisposition',
  'content-encoding': 'contentEncoding',
  'content-language': 'contentLanguage',
  expires: 'expires',
} as const satisfies Record<string, keyof ObjectHeaders>)

/** Text as a header value: its UTF-8 bytes. Characters that no header can carry become spaces. */
export function headerValue(text: string): string {
  // oxlint-disable-next-line no-control-regex -- what Node itself refuses in a header
  const plain = /[\x00-\x08\x0a-\x1f\x7f]/.test(text) ? text.replaceAll(/[\x00-\x08\x0a-\x1f\x7f]/g, ' ') : text
  // oxlint-disable-next-line no-control-regex -- ASCII, all of it
  return /^[\x00-\x7f]*$/.test(plain) ? plain : Buffer.from(plain).toString('latin1')
}

/** Content type and system metadata as response headers. */
export function headersOf({
  contentType,
  headers,
}: {
  contentType: string
  headers: ObjectHeaders
}): Record<string, string> {
  const written: Record<string, string> = { 'content-type': headerValue(contentType) }
  for (const [header, name] of systemHeaders) {
    const value = headers[name]
    if (value !== undefined) written[header] = headerValue(value)
  }
  return written
}
