import type { IncomingMessage } from 'node:http'
import { bareEtag, etagOf, namesEtag } from '@platform/service/entity-tag'
import type { Reply } from './exchange.ts'

/**
 * Answers a GET with its entity tag, or 304 if the client's copy is current. Only the client's own cache may store the
 * answer, and it must revalidate before each use: a token's reach can change at any time.
 */
export function answerWithEtag(incoming: IncomingMessage, headers: Record<string, string>, body: string): Reply {
  const etag = etagOf(body)
  const caching = { etag, 'cache-control': 'private, no-cache' }
  const held = incoming.headers['if-none-match']
  if (held !== undefined && namesEtag(held, bareEtag(etag))) return { status: 304, headers: caching, body: null }
  return { status: 200, headers: { ...headers, ...caching }, body }
}
