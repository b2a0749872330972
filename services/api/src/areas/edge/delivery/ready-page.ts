import { createHash } from 'node:crypto'
import type { Answer, HeaderPairs } from '@platform/build-output/router'
import { quotedEtag } from '@platform/service/entity-tag'
import type { Encoding } from '../../deploy/artifacts/artifact-blobs.ts'
import type { KeptPage } from '../isr/pages.ts'
import { mergeAnswerHeaders } from './answer-headers.ts'
import type { CompressedCopies } from './compressed-copies.ts'
import type { FlatHeaders } from './deployed-file.ts'
import { isPostponed, type PostponedPage, splitPostponed } from './kept-answer.ts'
import { encodedHeaders, isEncodable, withVary } from './negotiate-encoding.ts'
import { flatten } from './visit.ts'

/** Cache-Control for browsers, for a page that everybody gets, and for one whose remainder is personal. */
const SHARED_CONTROL = 'public, max-age=0, must-revalidate'
const OWN_CONTROL = 'private, no-cache, no-store, max-age=0, must-revalidate'
/** 132 of the 256 bits, as in our other entity tags. */
const TAG_LENGTH = 22

/** A page ready to send. */
export interface ReadyPage {
  status: number
  headers: HeaderPairs
  etag: string | undefined
  /** undefined: too long for memory; read it from `blob`. */
  body: Buffer | undefined
  blob: Pick<KeptPage, 'blobId' | 'bytes'> | undefined
  postponed: PostponedPage | undefined
  copies: CompressedCopies
  /** Its headers merged with those of routes, for the last visitor: most visitors get the same. */
  merged?: MergedHeaders
}

/** Headers of a page for visitors of one hostname and route. */
interface MergedHeaders {
  added: HeaderPairs
  important: readonly string[]
  hostname: string
  pairs: HeaderPairs
  /** True if the page may be sent compressed. */
  isEncodable: boolean
  /** Of a page that has no encodings, of one as it is, and of it in each encoding. */
  plain: FlatHeaders
  varied?: FlatHeaders
  encoded: Partial<Record<Encoding, FlatHeaders>>
}

const isSame = (a: HeaderPairs, b: HeaderPairs): boolean =>
  a.length === b.length && a.every(([name, value], n) => name === b[n]?.[0] && value === b[n]?.[1])

/**
 * The headers of a page for a visitor: of the page in an encoding, or as it is where that is undefined. mayEncode: whether the page
 * has encodings for such visitors.
 */
export function headersOf(merged: MergedHeaders, mayEncode: boolean, encoding: Encoding | undefined): FlatHeaders {
  if (!mayEncode) return merged.plain
  if (encoding === undefined) return (merged.varied ??= flatten(withVary(merged.pairs)))
  return (merged.encoded[encoding] ??= flatten(encodedHeaders(merged.pairs, encoding)))
}

/** Merges the headers of a page with those of the routes that led to it. */
export function mergedHeaders(
  page: ReadyPage,
  { headers: added, important }: Pick<Answer, 'headers' | 'important'>,
  hostname: string,
): MergedHeaders {
  const { merged } = page
  const isKnown =
    merged?.hostname === hostname &&
    isSame(merged.added, added) &&
    merged.important.length === important.length &&
    merged.important.every((name, n) => name === important[n])
  if (isKnown) return merged
  const pairs = mergeAnswerHeaders({ headers: added, important }, page.headers, hostname)
  if (!pairs.some(([name]) => name === 'cache-control'))
    pairs.push(['cache-control', page.postponed ? OWN_CONTROL : SHARED_CONTROL])
  return (page.merged = {
    added,
    important,
    hostname,
    pairs,
    isEncodable: isEncodable(pairs),
    plain: flatten(pairs),
    encoded: {},
  })
}

/** Throws for a partially prerendered page that cannot be split: only its Function may see its state. */
export function prepare(
  status: number,
  headers: HeaderPairs,
  body: Buffer | undefined,
  blob?: ReadyPage['blob'],
): ReadyPage {
  const postponed = body && splitPostponed(headers, body)
  if (!postponed && isPostponed(headers)) throw new Error('A page that is kept in part cannot be split')
  if (postponed) {
    const typed = headers.filter(([name]) => name !== 'content-type' && name !== 'etag')
    return {
      status,
      headers: [...typed, ['content-type', postponed.contentType]],
      etag: undefined,
      body,
      blob,
      postponed,
      copies: {},
    }
  }
  const own = headers.find(([name]) => name === 'etag')?.[1]
  if (own !== undefined || !body) return { status, headers, etag: own, body, blob, postponed, copies: {} }
  const etag = quotedEtag(createHash('sha256').update(body).digest('base64url').slice(0, TAG_LENGTH))
  return { status, headers: [...headers, ['etag', etag]], etag, body, blob, postponed, copies: {} }
}
