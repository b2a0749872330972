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

/** One way to read the path and query of a request for its signature. */
export interface CanonicalUri {
  path: string
  query: string
}

/**
 * The ways in which a path and query may have been signed: as they were sent, and in SigV4's one spelling, for clients that
 * sign `%28` and send `(`. Both mean the same resource, so accepting either gives nothing away. The second comes last and
 * is missing where it would be the same.
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

/** A header's value as it is signed: trimmed, and one space where there were more. */
const canonicalValue = (value: string): string => value.trim().replaceAll(/\s{2,}|[^\S ]/g, ' ')

/** The canonical request (SigV4): latin1 text whose bytes are hashed. host: the reading of it to try. */
export function canonicalRequest(given: {
  method: string
  uri: CanonicalUri
  host: string
  headers: ReadonlyMap<string, string>
  signedHeaders: readonly string[]
  payloadHash: string
}): string {
  const { method, uri, host, headers, signedHeaders, payloadHash } = given
  const lines = signedHeaders.map(
    (name) => `${name}:${name === 'host' ? host : canonicalValue(headers.get(name) ?? '')}\n`,
  )
  return `${method}\n${uri.path}\n${uri.query}\n${lines.join('')}\n${signedHeaders.join(';')}\n${payloadHash}`
}
