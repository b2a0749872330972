import { hash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { Reply } from './exchange.ts'

const ETAG_LENGTH = 22

/** True if the header names the tag, weakly compared (RFC 9110 §13.1.2). */
const names = (header: string, etag: string): boolean =>
  header.trim() === '*' || header.split(',').some((given) => given.trim().replace(/^W\//, '') === etag)

/**
 * Answers a GET with its entity tag, or with 304 and no body to who has it already. Only the caller's own cache may keep
 * the answer, and asks before each use: a token's reach can change at any time.
 */
export function answerWithEtag(incoming: IncomingMessage, headers: Record<string, string>, body: string): Reply {
  const etag = `"${hash('sha256', body, 'base64url').slice(0, ETAG_LENGTH)}"`
  const caching = { etag, 'cache-control': 'private, no-cache' }
  const held = incoming.headers['if-none-match']
  if (held !== undefined && names(held, etag)) return { status: 304, headers: caching, body: null }
  return { status: 200, headers: { ...headers, ...caching }, body }
}
