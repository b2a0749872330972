import type { Addressing } from './addressing.ts'
import { s3Failure } from './s3-failure.ts'

/** Where the API's own origin has S3. */
export const PREFIX = '/s3'
const KEY_BYTES_MAX = 1_024

/** One parameter of the query: as it was sent, for the signature, and what it means. */
export interface QueryParameter {
  rawName: string
  /** undefined without `=`; to a signature that is an empty value. */
  rawValue: string | undefined
  name: string
  value: string
}

/** What a request is about, read from its URL to the byte: nothing is folded, collapsed or decoded twice. */
export interface RawTarget {
  addressing: Addressing
  /** With `/s3` where that is its prefix, without the query, as it came. */
  rawPath: string
  parameters: readonly QueryParameter[]
  /** The first parameter of a name. */
  query: ReadonlyMap<string, string>
  /** undefined: the service itself. */
  bucket: string | undefined
  /** undefined: the bucket itself. */
  key: string | undefined
}

/** Bytes above ASCII come from Node as latin1; in a URL they mean what their escapes mean. */
const escapeHighBytes = (text: string): string =>
  text.replaceAll(/[\u0080-\u00ff]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`)

/** Decodes once. Throws InvalidArgument for a NUL and what is no UTF-8, which no key can hold. */
export function decodeOnce(text: string, what: string): string {
  let decoded: string
  try {
    decoded = decodeURIComponent(escapeHighBytes(text))
  } catch {
    throw s3Failure('InvalidArgument', `The ${what} is not valid percent-encoded UTF-8`)
  }
  if (decoded.includes('\0')) throw s3Failure('InvalidArgument', `The ${what} holds a NUL`)
  return decoded
}

/** Throws KeyTooLongError beyond 1,024 bytes of UTF-8. */
export function checkKey(key: string): string {
  if (Buffer.byteLength(key) > KEY_BYTES_MAX) throw s3Failure('KeyTooLongError')
  return key
}

function readQuery(text: string): QueryParameter[] {
  if (text === '') return []
  const parameters: QueryParameter[] = []
  for (const pair of text.split('&')) {
    if (pair === '') continue
    const at = pair.indexOf('=')
    const rawName = at < 0 ? pair : pair.slice(0, at)
    const rawValue = at < 0 ? undefined : pair.slice(at + 1)
    parameters.push({
      rawName,
      rawValue,
      name: decodeOnce(rawName.replaceAll('+', ' '), 'query'),
      value: decodeOnce((rawValue ?? '').replaceAll('+', ' '), 'query'),
    })
  }
  return parameters
}

/** What stands in front of the key in a path, split off: the bucket, unless the host has named it. */
function readPath(below: string, addressing: Addressing): { bucket: string | undefined; rawKey: string } {
  if (addressing.kind === 'host') return { bucket: addressing.bucket, rawKey: below }
  if (below === '') return { bucket: undefined, rawKey: '' }
  const slash = below.indexOf('/')
  const bucket = decodeOnce(slash < 0 ? below : below.slice(0, slash), 'bucket name')
  return { bucket, rawKey: slash < 0 ? '' : below.slice(slash + 1) }
}

/**
 * Reads `incoming.url` of an S3 request. A key is what stands behind the bucket's slash, decoded once: `..`, `//`,
 * `%2F` and `+` are bytes of it like any others and never a path. In the query `+` is a space, as forms write it.
 *
 * Throws InvalidArgument for what is no UTF-8 or holds a NUL, KeyTooLongError beyond 1,024 bytes, InvalidURI for no path.
 */
export function readTarget(url: string, addressing: Addressing): RawTarget {
  const at = url.indexOf('?')
  const rawPath = at < 0 ? url : url.slice(0, at)
  const parameters = at < 0 ? [] : readQuery(url.slice(at + 1))
  const query = new Map<string, string>()
  for (const { name, value } of parameters) if (!query.has(name)) query.set(name, value)

  if (!rawPath.startsWith('/')) throw s3Failure('InvalidURI')
  const prefix = addressing.kind === 'prefix' ? PREFIX : ''
  const { bucket, rawKey } = readPath(rawPath.slice(prefix.length + 1), addressing)
  const key = rawKey === '' ? undefined : checkKey(decodeOnce(rawKey, 'key'))
  return { addressing, rawPath, parameters, query, bucket, key }
}
