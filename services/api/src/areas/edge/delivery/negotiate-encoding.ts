import type { IncomingMessage } from 'node:http'
import type { HeaderPairs } from '@platform/build-output/router'
import { bareEtag, namesEtag } from '@platform/service/entity-tag'
import { type Encoding, encodings } from '../../deploy/artifacts/artifact-blobs.ts'
import { isCompressibleType } from '../../deploy/artifacts/compress-artifacts.ts'
import { chooseEncoded } from '../../../http/accepted-encodings.ts'
import { isEventStream } from './call-function.ts'

/** A shorter answer fits into one packet with its head either way. */
const BYTES_MIN = 1_024
const VARIES_BY = 'Accept-Encoding'
const OFFERED = encodings.map((encoding) => ({ encoding }))
const noTransform = /(?:^|[\s,;])no-transform(?:$|[\s,;])/i

/** What is asked, and how. */
export interface NegotiatedRequest {
  method: string
  incoming: Pick<IncomingMessage, 'headers'>
  /** Set for an upgrade request, whose refusal is passed on as it is. */
  upgrade: unknown
}

/** True if a request may be answered compressed: a range is of the bytes that the Function knows (RFC 9110 §14.2). */
export const isNegotiable = ({ method, incoming, upgrade }: NegotiatedRequest): boolean =>
  (method === 'GET' || method === 'HEAD') && incoming.headers.range === undefined && upgrade === undefined

/** True if an answer of this status and length has a body worth compressing. length: undefined if it is not known. */
export const isLongEnough = (status: number, length: number | undefined): boolean =>
  status >= 200 &&
  status <= 299 &&
  status !== 204 &&
  status !== 205 &&
  status !== 206 &&
  (length === undefined || length >= BYTES_MIN)

/**
 * True if an answer is text that nobody has encoded, and nothing forbids it: no-transform (RFC 9111 §5.2.2.6), and digests of its
 * bytes (RFC 9530). Names are in lower case.
 */
export function isEncodable(headers: HeaderPairs): boolean {
  let isText = false
  for (const [name, value] of headers)
    switch (name) {
      case 'content-type':
        if (!isCompressibleType(value) || isEventStream(value.toLowerCase())) return false
        isText = true
        break
      case 'content-encoding':
      case 'content-range':
      case 'content-digest':
      case 'repr-digest':
      case 'digest':
      case 'content-md5':
        return false
      case 'cache-control':
        if (noTransform.test(value)) return false
        break
      default:
    }
  return isText
}

/** The encoding that a client likes best; undefined: none. */
export const encodingFor = ({ incoming }: NegotiatedRequest): Encoding | undefined =>
  chooseEncoded(incoming.headers['accept-encoding'], OFFERED)?.encoding

/** Headers of an answer that has several encodings (RFC 9110 §12.5.5), whichever of them it is in. */
export function withVary(headers: HeaderPairs): HeaderPairs {
  const names = headers.flatMap(([name, value]) => (name === 'vary' ? value.split(',') : []))
  if (names.length === 0) return [...headers, ['vary', VARIES_BY]]
  const trimmed = names.map((name) => name.trim()).filter((name) => name !== '')
  if (trimmed.includes('*')) return headers
  const others = trimmed.filter((name) => name.toLowerCase() !== 'accept-encoding')
  if (others.length === trimmed.length - 1) return headers
  return [...headers.filter(([name]) => name !== 'vary'), ['vary', [...others, VARIES_BY].join(', ')]]
}

/** The same tag for another encoding of the content, so no longer one of its bytes (RFC 9110 §8.8.1). */
const weak = (etag: string): string => (etag.startsWith('"') ? `W/${etag}` : etag)

/** Headers of an answer whose body is compressed. */
export function encodedHeaders(headers: HeaderPairs, encoding: Encoding): HeaderPairs {
  const kept: HeaderPairs = []
  for (const [name, value] of withVary(headers))
    if (name === 'etag') kept.push([name, weak(value)])
    else if (name !== 'content-length' && name !== 'accept-ranges') kept.push([name, value])
  kept.push(['content-encoding', encoding])
  return kept
}

/** What an answer becomes that may be compressed. */
export interface Negotiated {
  /** Of the answer as it is. */
  plain: HeaderPairs
  /** undefined: the client wants it as it is. */
  encoded: { encoding: Encoding; headers: HeaderPairs } | undefined
}

/** Decides whether an answer may be compressed, and how; undefined: it is passed on untouched. Names are in lower case. */
export function negotiate(
  request: NegotiatedRequest,
  status: number,
  headers: HeaderPairs,
  length: number | undefined,
): Negotiated | undefined {
  if (!isLongEnough(status, length) || !isNegotiable(request) || !isEncodable(headers)) return undefined
  const encoding = encodingFor(request)
  return {
    plain: withVary(headers),
    encoded: encoding && { encoding, headers: encodedHeaders(headers, encoding) },
  }
}

const etagOf = (headers: HeaderPairs): string | undefined => headers.find(([name]) => name === 'etag')?.[1]

/**
 * True if the client has an answer already, by a tag that the edge made weak: the Function may have compared it with its own, byte by
 * byte.
 */
export function isCurrent({ incoming }: NegotiatedRequest, status: number, headers: HeaderPairs): boolean {
  const tags = incoming.headers['if-none-match']
  const etag = tags === undefined || status !== 200 ? undefined : etagOf(headers)
  return tags !== undefined && etag !== undefined && namesEtag(tags, bareEtag(etag))
}

/** Headers of a 304 to a client that has the compressed answer: they are those of that answer (RFC 9110 §15.4.5). */
export function notModifiedHeaders({ incoming }: NegotiatedRequest, headers: HeaderPairs): HeaderPairs {
  const tags = incoming.headers['if-none-match']
  const etag = tags?.includes('W/') === true ? etagOf(headers) : undefined
  if (etag === undefined || weak(etag) === etag) return headers
  if (!tags?.split(',').some((tag) => tag.trim() === weak(etag))) return headers
  return withVary(headers).map(([name, value]) => (name === 'etag' ? [name, weak(value)] : [name, value]))
}
