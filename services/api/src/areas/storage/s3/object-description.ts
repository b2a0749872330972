import { headerText, isAscii } from '@platform/s3-protocol/wire/raw-headers'
import { s3Failure } from '@platform/s3-protocol/wire/s3-failure'
import { headersOf, headerValue, systemHeaders } from '../objects/object-headers.ts'
import type { ObjectHeaders } from '../objects/table.ts'

const METADATA_BYTES_MAX = 2_048
const META = 'x-amz-meta-'
/**
 * Begins a stored value that arrived as bytes other than UTF-8: the rest is latin1, a character per byte. No header can carry this
 * character. A release that does not know it writes a space and the UTF-8 of the rest.
 */
const RAW_MARK = '\u0001'
// oxlint-disable-next-line no-control-regex -- the mark
const RAW_VALUE = /^\u0001[\t\x20-\x7e\x80-\xff]*$/

/** A metadata value as it is stored. value: latin1, byte for byte; text: the same, decoded. */
function storedValue(value: string, text: string): string {
  // Forms may hold the mark itself, which would be written as a space anyway.
  if (text.startsWith(RAW_MARK)) return ` ${text.slice(1)}`
  // Only text that is not UTF-8 decodes to itself.
  return text === value && !isAscii(text) ? RAW_MARK + text : text
}

/** A stored metadata value as the bytes that were sent. */
const sentValue = (stored: string): string => (RAW_VALUE.test(stored) ? stored.slice(1) : headerValue(stored))

const CONTENT_TYPE_DEFAULT = 'application/octet-stream'

/** The headers and metadata that a client stores with an object. */
export interface Description {
  contentType: string
  headers: ObjectHeaders
  metadata: Record<string, string>
}

/** Removes `aws-chunked`, which describes the body on the wire and not the object. The rest stays byte for byte as sent. */
const withoutChunked = (encoding: string): string => {
  const parts = encoding.split(',')
  const kept = parts.filter((part) => part.trim().toLowerCase() !== 'aws-chunked')
  return kept.length === parts.length ? encoding : kept.join(',').trim()
}

/** Reads content type, system metadata and metadata. Throws MetadataTooLarge beyond 2 KB of names and values. */
export function readDescription(requestHeaders: ReadonlyMap<string, string>): Description {
  const headers: ObjectHeaders = {}
  for (const [header, name] of systemHeaders) {
    const value = requestHeaders.get(header)
    if (value === undefined) continue
    const text = headerText(header === 'content-encoding' ? withoutChunked(value) : value)
    if (text !== '') headers[name] = text
  }
  const metadata: Record<string, string> = {}
  let bytes = 0
  for (const [header, value] of requestHeaders) {
    if (!header.startsWith(META)) continue
    const name = header.slice(META.length)
    const text = headerText(value)
    bytes += name.length + Buffer.byteLength(text)
    metadata[name] = storedValue(value, text)
  }
  if (bytes > METADATA_BYTES_MAX) throw s3Failure('MetadataTooLarge')
  const contentType = requestHeaders.get('content-type')
  return {
    contentType: contentType === undefined || contentType === '' ? CONTENT_TYPE_DEFAULT : headerText(contentType),
    headers,
    metadata,
  }
}

/** Formats a description as response headers. */
export function writeDescription({ contentType, headers, metadata }: Description): Record<string, string> {
  const written = headersOf({ contentType, headers })
  for (const name in metadata) written[`${META}${name}`] = sentValue(metadata[name] as string)
  return written
}
