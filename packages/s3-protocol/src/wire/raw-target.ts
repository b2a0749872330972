import { isAscii } from './raw-headers.ts'
import { s3Failure } from './s3-failure.ts'

const KEY_BYTES_MAX = 1_024

/**
 * How a request names its bucket: `prefix`, in the path below a prefix such as `/s3`; `root`, in the whole path; `host`, in the
 * first labels of its host; then the whole path is the key (S3 API "Virtual hosting of buckets").
 */
export type Addressing = { kind: 'prefix'; prefix: string } | { kind: 'root' } | { kind: 'host'; bucket: string }

/** One query parameter: as sent, for the signature, and decoded. */
export interface QueryParameter {
  rawName: string
  /** undefined without `=`; for the signature that is an empty value. */
  rawValue: string | undefined
  name: string
  value: string
}

/** The bucket, key and query of a request, read from its URL byte for byte: no folding, collapsing or double decoding. */
export interface RawTarget {
  addressing: Addressing
  /** As received, with its prefix and without the query. */
  rawPath: string
  parameters: readonly QueryParameter[]
  /** The first parameter of each name. */
  query: ReadonlyMap<string, string>
  /** undefined: the service itself. */
  bucket: string | undefined
  /** undefined: the bucket itself. */
  key: string | undefined
}

/** Node reads bytes above ASCII as latin1; in a URL they mean the same as their escapes. */
const escapeHighBytes = (text: string): string =>
  isAscii(text) ? text : text.replaceAll(/[\u0080-\u00ff]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`)

/** Decodes once. Throws InvalidArgument for a NUL, which keys cannot contain, and `code` for invalid UTF-8. */
export function decodeOnce(
  text: string,
  what: string,
  code: 'InvalidArgument' | 'InvalidURI' = 'InvalidArgument',
): string {
  let decoded: string
  try {
    decoded = decodeURIComponent(escapeHighBytes(text))
  } catch {
    throw s3Failure(code, `The ${what} is not valid percent-encoded UTF-8`)
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
    const index = pair.indexOf('=')
    const rawName = index < 0 ? pair : pair.slice(0, index)
    const rawValue = index < 0 ? undefined : pair.slice(index + 1)
    parameters.push({
      rawName,
      rawValue,
      name: decodeOnce(rawName.replaceAll('+', ' '), 'query'),
      value: decodeOnce((rawValue ?? '').replaceAll('+', ' '), 'query'),
    })
  }
  return parameters
}

/** Splits a path into bucket and key; if the host names the bucket, the whole path is the key. */
function readPath(below: string, addressing: Addressing): { bucket: string | undefined; rawKey: string } {
  if (addressing.kind === 'host') return { bucket: addressing.bucket, rawKey: below }
  if (below === '') return { bucket: undefined, rawKey: '' }
  const slash = below.indexOf('/')
  const bucket = decodeOnce(slash < 0 ? below : below.slice(0, slash), 'bucket name', 'InvalidURI')
  return { bucket, rawKey: slash < 0 ? '' : below.slice(slash + 1) }
}

/**
 * Reads the URL of a request as Node received it. The key is everything after the bucket's slash, decoded once: `..`, `//`, `%2F`
 * and `+` are ordinary bytes of it, never path syntax. In the query `+` is a space, as in forms.
 *
 * Throws InvalidURI for a URL without a path or with invalid UTF-8 in it, InvalidArgument for a NUL and for a query of invalid
 * UTF-8, KeyTooLongError beyond 1,024 bytes.
 */
export function readTarget(url: string, addressing: Addressing): RawTarget {
  const index = url.indexOf('?')
  const rawPath = index < 0 ? url : url.slice(0, index)
  const parameters = index < 0 ? [] : readQuery(url.slice(index + 1))
  const query = new Map<string, string>()
  for (const { name, value } of parameters) if (!query.has(name)) query.set(name, value)

  if (!rawPath.startsWith('/')) throw s3Failure('InvalidURI')
  const prefix = addressing.kind === 'prefix' ? addressing.prefix : ''
  const { bucket, rawKey } = readPath(rawPath.slice(prefix.length + 1), addressing)
  const key = rawKey === '' ? undefined : checkKey(decodeOnce(rawKey, 'key', 'InvalidURI'))
  return { addressing, rawPath, parameters, query, bucket, key }
}
