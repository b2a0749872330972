import { Readable } from 'node:stream'
import { BadGateway } from '@platform/errors/api-error'
import { RefusedAddress, UnreachableOrigin } from '@platform/guarded-fetch/guarded-fetch'
import type { Answer } from '@platform/build-output/router'
import type { EdgeDeps } from '../deps.ts'
import { isLoop, LOOP_TOKEN } from '../../../http/cdn-loop.ts'
import { STICKY_PARAMETER } from '../sticky-sessions/sticky-endpoint.ts'
import { mergeAnswerHeaders, pairsOf } from './answer-headers.ts'
import type { SitePage } from './site-page.ts'
import { flatten, type Visit } from './visit.ts'

/** Headers that carry the visitor's credentials, or concern only the platform's own connection. */
const withheld = new Set(['authorization', 'cookie', 'host', 'content-length', 'expect', 'x-vercel-ip-country'])

/** The visitor's body. If the origin reads only part of it, the visitor's connection stays open. */
async function* sentBy(visit: Visit): AsyncGenerator<Buffer> {
  for await (const chunk of visit.incoming.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    visit.requestBodyBytes += chunk.length
    yield chunk
  }
}

/** The origin's body. Throws BadGateway if it breaks off. */
async function* bodyOf(body: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  try {
    yield* body
  } catch (error) {
    throw new BadGateway('The origin broke off its answer', error)
  }
}

/**
 * Answers with the response of another origin, for a route that leads to one. The origin does not get the visitor's cookies,
 * credentials or address. 508 if CDN-Loop shows a loop, 502 if the origin is refused or cannot be reached.
 */
export async function deliverExternal(
  { guardedFetch }: Pick<EdgeDeps, 'guardedFetch'>,
  visit: Visit,
  answer: Extract<Answer, { kind: 'external' }>,
  statusPage: (status: number) => SitePage,
): Promise<void> {
  const { incoming, outgoing } = visit
  visit.cacheStatus = 'bypass'
  const cdnLoop = visit.headers['cdn-loop']
  if (isLoop(cdnLoop)) {
    visit.sendPage(statusPage(508))
    return
  }
  const removed = new Set(answer.requestHeadersRemoved)
  const headers: Record<string, string | string[]> = {}
  for (const [name, value] of Object.entries(visit.headers))
    if (value !== undefined && !withheld.has(name) && !removed.has(name) && !name.startsWith('x-forwarded-'))
      headers[name] = value
  for (const [name, value] of answer.requestHeaders) if (name !== 'host') headers[name] = value
  // The referring page may have a sticky URL, which is a credential for this site.
  if (String(headers['referer']).includes(STICKY_PARAMETER)) delete headers['referer']
  headers['cdn-loop'] = [cdnLoop ?? []].flat().concat(LOOP_TOKEN).join(', ')
  const hasBody =
    incoming.headers['content-length'] !== undefined || incoming.headers['transfer-encoding'] !== undefined
  const { 'content-length': length } = incoming.headers
  if (length !== undefined) headers['content-length'] = length
  const left = new AbortController()
  outgoing.once('close', () => left.abort())
  let response
  try {
    response = await guardedFetch.fetch({
      url: answer.url,
      method: visit.method,
      headers,
      ...(hasBody && { body: Readable.from(sentBy(visit), { objectMode: false }) }),
      redirectsMax: 0,
      signal: left.signal,
    })
  } catch (error) {
    if (!(error instanceof RefusedAddress) && !(error instanceof UnreachableOrigin)) throw error
    visit.sendPage(statusPage(502))
    return
  }
  const status = response.status === 200 ? (answer.status ?? 200) : response.status
  const sent = flatten(mergeAnswerHeaders(answer, pairsOf(response.headers), visit.hostname))
  await visit.stream(status, sent, bodyOf(response.body))
}
