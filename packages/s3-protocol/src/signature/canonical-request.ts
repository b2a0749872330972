import type { QueryParameter, RawTarget } from '../wire/raw-target.ts'
import { uriEncode } from '../wire/uri-encode.ts'

/** Rewrites a raw piece of a URL in SigV4's own spelling. */
function reencode(raw: string): string {
  // Well-formed: readTarget has decoded it already.
  return uriEncode(decodeURIComponent(raw.replaceAll(/[\u0080-\u00ff]/g, (c) => `%${c.charCodeAt(0).toString(16)}`)))
}

const byCodeUnit = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)

function joinQuery(pairs: readonly (readonly [name: string, value: string])[]): string {
  return [...pairs]
    .sort(([aName, aValue], [bName, bValue]) => byCodeUnit(aName, bName) || byCodeUnit(aValue, bValue))
    .map(([name, value]) => `${name}=${value}`)
    .join('&')
}

const signed = (parameters: readonly QueryParameter[]): QueryParameter[] =>
  parameters.filter(({ name }) => name !== 'X-Amz-Signature')

/** A possible path and query of the signature. */
export interface CanonicalUri {
  path: string
  query: string
}

/**
 * Yields the ways in which a path and query may have been signed: as sent, then in SigV4's own spelling, for clients that sign
 * `%28` and send `(`. Both name the same resource, so accepting either is safe. The second is omitted if it is equal.
 */
export function* canonicalUris({ rawPath, parameters }: RawTarget): Generator<CanonicalUri> {
  const sent = signed(parameters)
  const raw = { path: rawPath, query: joinQuery(sent.map(({ rawName, rawValue }) => [rawName, rawValue ?? ''])) }
  yield raw
  const normal = {
    path: rawPath.split('/').map(reencode).join('/'),
    query: joinQuery(sent.map(({ rawName, rawValue }) => [reencode(rawName), reencode(rawValue ?? '')])),
  }
  if (raw.path !== normal.path || raw.query !== normal.query) yield normal
}

/**
 * Normalizes a header value for signing: trimmed, with each run of white space as one space. Only ASCII counts as white space: a
 * no-break space of latin1 may be a byte of a character in UTF-8, as in "à".
 */
function canonicalValue(value: string): string {
  const text = value.replaceAll(/[\t-\r ]{2,}|[\t-\r]/g, ' ')
  return text.slice(text.startsWith(' ') ? 1 : 0, text.endsWith(' ') ? -1 : undefined)
}

/** Builds the canonical request (SigV4): latin1 text whose bytes are hashed. host: the host name to try. */
export function canonicalRequest(request: {
  method: string
  uri: CanonicalUri
  host: string
  headers: ReadonlyMap<string, string>
  signedHeaders: readonly string[]
  payloadHash: string
}): string {
  const { method, uri, host, headers, signedHeaders, payloadHash } = request
  const lines = signedHeaders.map(
    (name) => `${name}:${name === 'host' ? host : canonicalValue(headers.get(name) ?? '')}\n`,
  )
  return `${method}\n${uri.path}\n${uri.query}\n${lines.join('')}\n${signedHeaders.join(';')}\n${payloadHash}`
}
