import { createHash, timingSafeEqual } from 'node:crypto'
import { Readable } from 'node:stream'
import { hashToken } from '@platform/build-output/read-prerender'
import type { Answer, HeaderPairs } from '@platform/build-output/router'
import { FunctionFailure, type Lease } from '@platform/function-runtime/function-runtime'
import { bareEtag, namesEtag, quotedEtag } from '@platform/service/entity-tag'
import { header } from '../../../http/exchange.ts'
import type { CacheStatus } from '../../observe/request-logs/table.ts'
import type { Found, KeptPage } from '../isr/pages.ts'
import type { IsrTags } from '../isr/tags.ts'
import { mergeAnswerHeaders } from './answer-headers.ts'
import { AnswerTooLong, callFunction } from './call-function.ts'
import {
  answerFailure,
  ClientLeft,
  deliverFunction,
  failureOf,
  headersFor,
  sayFailure,
  statusFor,
} from './deliver-function.ts'
import { type FileReader, readFile } from './deliver-file.ts'
import type { FlatHeaders } from './deployed-file.ts'
import type { DeployedPrerender } from './deployed-prerender.ts'
import type { DeployedFunction, DeployedSite } from './deployed-site.ts'
import { flushHead } from './flush-head.ts'
import { isPostponed, type PostponedPage, splitPostponed } from './kept-answer.ts'
import {
  groupKeyOf,
  keyOf,
  type MadePage,
  makePage,
  type PageMaker,
  sharedRequest,
  type SharedRequest,
} from './make-page.ts'
import { flatten, type Visit } from './visit.ts'

type PrerenderAnswer = Extract<Answer, { kind: 'prerender' }>

const BYPASS_COOKIE = '__prerender_bypass'
const REVALIDATE_HEADER = 'x-prerender-revalidate'
const IF_GENERATED_HEADER = 'x-prerender-revalidate-if-generated'
/** Cache-Control for browsers, for a page that everybody gets, and for one whose remainder is personal. */
const SHARED_CONTROL = 'public, max-age=0, must-revalidate'
const OWN_CONTROL = 'private, no-cache, no-store, max-age=0, must-revalidate'
/** 132 of the 256 bits, as in our other entity tags. */
const TAG_LENGTH = 22
/** Pages of a deployment that are regenerated at a time; others stay as they are until they are requested again. */
const RENEWALS_MAX = 32

/** What is needed to deliver pages. */
export interface PageDeliverer extends PageMaker {
  reader: FileReader
  tags: Pick<IsrTags, 'underWay'>
  /** Pages that visitors wait for. */
  making: Map<string, Promise<MadePage>>
  /** Pages being regenerated while they are shown: keys by deployment. */
  renewing: Map<string, Set<string>>
}

/** A page ready to send. */
interface ReadyPage {
  status: number
  headers: HeaderPairs
  etag: string | undefined
  /** undefined: too long for memory; read it from `blob`. */
  body: Buffer | undefined
  blob: Pick<KeptPage, 'blobId' | 'bytes'> | undefined
  postponed: PostponedPage | undefined
  /** Its headers merged with those of routes, for the last visitor: most visitors get the same. */
  merged?: { added: HeaderPairs; important: readonly string[]; hostname: string; headers: FlatHeaders }
}

const isSame = (a: HeaderPairs, b: HeaderPairs): boolean =>
  a.length === b.length && a.every(([name, value], n) => name === b[n]?.[0] && value === b[n]?.[1])

function mergedHeaders(page: ReadyPage, { headers: added, important }: PrerenderAnswer, hostname: string): FlatHeaders {
  const { merged } = page
  const isKnown =
    merged?.hostname === hostname &&
    isSame(merged.added, added) &&
    merged.important.length === important.length &&
    merged.important.every((name, n) => name === important[n])
  if (isKnown) return merged.headers
  const pairs = mergeAnswerHeaders({ headers: added, important }, page.headers, hostname)
  if (!pairs.some(([name]) => name === 'cache-control'))
    pairs.push(['cache-control', page.postponed ? OWN_CONTROL : SHARED_CONTROL])
  const headers = flatten(pairs)
  page.merged = { added, important, hostname, headers }
  return headers
}

const ready = new WeakMap<Found, ReadyPage>()

/** Compares in constant time, using hashes of equal length. */
function isToken(token: string | undefined, hash: string | undefined): token is string {
  if (token === undefined || hash === undefined) return false
  return timingSafeEqual(Buffer.from(hashToken(token)), Buffer.from(hash))
}

function cookieOf(cookies: string | undefined, wanted: string): string | undefined {
  if (!cookies?.includes(wanted)) return undefined
  for (const pair of cookies.split(';')) {
    const index = pair.indexOf('=')
    if (pair.slice(0, index).trim() === wanted) return pair.slice(index + 1).trim()
  }
}

/** True if a visitor gets the page that everybody gets. */
function isShared(visit: Visit, answer: PrerenderAnswer, { rules }: DeployedPrerender): boolean {
  return (
    (visit.method === 'GET' || visit.method === 'HEAD') &&
    visit.pin === undefined &&
    visit.upgrade === undefined &&
    !visit.isUncached &&
    !answer.isBypassed &&
    !isToken(cookieOf(visit.incoming.headers.cookie, BYPASS_COOKIE), rules.bypassTokenHash)
  )
}

/** Throws for a partially prerendered page that cannot be split: only its Function may see its state. */
function prepare(status: number, headers: HeaderPairs, body: Buffer | undefined, blob?: ReadyPage['blob']): ReadyPage {
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
    }
  }
  const own = headers.find(([name]) => name === 'etag')?.[1]
  if (own !== undefined || !body) return { status, headers, etag: own, body, blob, postponed }
  const etag = quotedEtag(createHash('sha256').update(body).digest('base64url').slice(0, TAG_LENGTH))
  return { status, headers: [...headers, ['etag', etag]], etag, body, blob, postponed }
}

async function readyPage({ reader }: PageDeliverer, entry: Found, { fallback }: DeployedPrerender): Promise<ReadyPage> {
  const known = ready.get(entry)
  if (known) return known
  const { page } = entry
  let made: ReadyPage
  if (page) made = prepare(page.status, page.headers, page.body ?? (await wholeOf(reader, page)), page)
  else if (fallback) made = prepare(fallback.status, fallback.headers, await readFile(reader, fallback.file))
  else throw new Error('There is neither a page nor a fallback')
  ready.set(entry, made)
  return made
}

/** The body of a long page, if it has to be split. */
async function wholeOf({ blobs }: FileReader, { headers, blobId, bytes }: KeptPage): Promise<Buffer | undefined> {
  if (!isPostponed(headers)) return undefined
  return Buffer.concat(await Array.fromAsync(blobs.read(blobId, { start: 0, end: bytes - 1 }, 'owned')))
}

/** Finds a page. While the database is unavailable, shows what the build left, however old it is. */
async function findPage(
  { pages, caller }: PageDeliverer,
  site: DeployedSite,
  key: string,
  { fallback }: DeployedPrerender,
): Promise<Found | undefined> {
  try {
    return await pages.find(site.id, key, fallback)
  } catch (error) {
    caller.deps.logger.warn({ err: error, deploymentId: site.id }, 'a page could not be looked up')
    return fallback && { page: undefined, freshUntil: 0, staleUntil: Infinity }
  }
}

/** Sends a page. The shell of a partially prerendered one goes out at once, the remainder as the Function generates it. */
async function sendPage(
  deliverer: PageDeliverer,
  visit: Visit,
  site: DeployedSite,
  answer: PrerenderAnswer,
  page: ReadyPage,
  cacheStatus: Exclude<CacheStatus, null>,
  begunAt: number | undefined,
): Promise<void> {
  visit.cacheStatus = cacheStatus
  const status = statusFor(page.status, answer)
  const headers = [...mergedHeaders(page, answer, visit.hostname)]
  if (begunAt !== undefined) {
    const age = Math.max(0, Math.floor((deliverer.now().getTime() - begunAt) / 1_000))
    headers.push('age', String(age))
  }
  headers.push('x-cache', cacheStatus.toUpperCase())
  if (cacheStatus === 'revalidated') headers.push('x-vercel-cache', 'REVALIDATED')
  const { 'if-none-match': tags } = visit.incoming.headers
  if (status === 200 && page.etag !== undefined && tags !== undefined && namesEtag(tags, bareEtag(page.etag))) {
    visit.send(
      304,
      headers.filter((_, n) => headers[n & ~1] !== 'content-type'),
    )
    return
  }
  if (page.postponed) {
    await sendInTwo(deliverer, visit, site, answer, page.postponed, status, headers)
    return
  }
  if (status === 204 || status === 304) {
    visit.send(status, headers)
    return
  }
  const length = page.body?.length ?? page.blob?.bytes ?? 0
  headers.push('content-length', String(length))
  if (page.body ?? visit.method === 'HEAD') visit.send(status, headers, page.body)
  else if (page.blob)
    await visit.stream(
      status,
      headers,
      deliverer.reader.blobs.read(page.blob.blobId, { start: 0, end: length - 1 }, 'borrowed'),
    )
}

/** Sends the stored shell, followed by what the Function generates from its state for this visitor. */
async function sendInTwo(
  { caller }: PageDeliverer,
  visit: Visit,
  site: DeployedSite,
  answer: PrerenderAnswer,
  { state, shell }: PostponedPage,
  status: number,
  headers: FlatHeaders,
): Promise<void> {
  const { chain } = site.prerenders.get(answer.path)?.rules ?? {}
  const fn = chain && site.functions.get(chain.path)
  if (visit.method === 'HEAD') {
    visit.send(status, headers)
    return
  }
  visit.writeHead(status, headers)
  if (shell.length > 0) visit.write(shell, () => {})
  else flushHead(visit.outgoing)
  if (!fn) {
    visit.end()
    return
  }
  const own = headersFor(caller, visit, answer)
  const matchedPath = answer.requestHeaders.find(([name]) => name === 'x-matched-path')?.[1]
  const call = {
    method: 'POST',
    path: answer.url,
    headers: {
      ...own,
      ...chain.headers,
      'x-matched-path': matchedPath ?? `/${chain.path}`,
      'content-length': String(state.length),
    },
    body: Readable.from([state], { objectMode: false }),
  }
  let lease: Lease | undefined
  try {
    const held = (lease = await caller.deps.functions.acquire(fn.deploymentId, fn.id))
    await new Promise<void>((resolve, reject) => {
      const control = callFunction(held, call, caller.timings, {
        onHead(received) {
          if (received !== 200)
            control.abort(new Error(`It answered ${received} when it was asked for the rest of a page`))
        },
        onData: (chunk) => visit.write(chunk, () => control.resume()),
        onEnd() {
          visit.end()
          resolve()
        },
        onError: reject,
      })
      visit.outgoing.once('close', () => {
        if (!visit.outgoing.writableFinished) control.abort(new ClientLeft())
      })
    })
  } catch (error) {
    if (error instanceof ClientLeft) return
    const failure = lease && (await failureOf(error as Error, lease))
    if (lease && failure instanceof FunctionFailure) sayFailure(caller.deps.functions, fn, lease, visit.id, failure)
    // The page is incomplete, and the visitor must be able to tell.
    visit.outgoing.destroy()
  } finally {
    lease?.release()
  }
}

/** Generates a page that does not exist yet; concurrent requests for it share the result. */
function makeOnce(deliverer: PageDeliverer, visit: Visit, site: DeployedSite, shared: SharedRequest, key: string) {
  const { making, pages } = deliverer
  const name = site.id + key
  let under = making.get(name)
  if (!under) {
    under = pages
      .begin()
      .catch((error: unknown) => {
        deliverer.caller.deps.logger.warn({ err: error, deploymentId: site.id }, 'a page is made without being kept')
        return undefined
      })
      .then((begunAt) => makePage(deliverer, site, shared, { begunAt, requestId: visit.id }))
      .finally(() => making.delete(name))
    making.set(name, under)
  }
  return under
}

/**
 * Regenerates a page while it is being shown, unless somebody else does. Never throws: after a failure the page stays as it is.
 */
async function renew(
  deliverer: PageDeliverer,
  site: DeployedSite,
  shared: SharedRequest,
  shown: { key: string; begunAt: number | undefined },
): Promise<void> {
  const { key } = shown
  const { pages, caller, renewing } = deliverer
  const ofSite = renewing.get(site.id) ?? new Set()
  // One placeholder stands for any number of pages, and visitors may request all of them.
  if (ofSite.has(key) || ofSite.size >= RENEWALS_MAX) return
  renewing.set(site.id, ofSite.add(key))
  const told = { deploymentId: site.id, path: shared.path }
  try {
    const claim = await pages.claim(site.id, groupKeyOf(site, shared), shown)
    if (!claim) return
    let outcome: 'made' | 'failed' = 'failed'
    try {
      const page = await makePage(deliverer, site, shared, { begunAt: claim.begunAt })
      if (page.isKept) outcome = 'made'
      else caller.deps.logger.info({ ...told, status: page.status }, 'a page was not made anew')
    } finally {
      await claim.end(outcome)
    }
  } catch (error) {
    caller.deps.logger.info({ ...told, err: error }, 'a page was not made anew')
  } finally {
    ofSite.delete(key)
    if (ofSite.size === 0) renewing.delete(site.id)
  }
}

/** Sends a page that was just generated, or its replacement if that failed. */
async function sendMade(
  deliverer: PageDeliverer,
  visit: Visit,
  site: DeployedSite,
  answer: PrerenderAnswer,
  prerender: DeployedPrerender,
  page: MadePage,
  cacheStatus: 'miss' | 'revalidated',
): Promise<void> {
  if (page.status >= 500 && prerender.rules.exposesErrorBody !== true) {
    visit.cacheStatus = 'bypass'
    await deliverer.caller.deliverInstead(visit, site, answer.fail(500))
    return
  }
  const sent = prepare(page.status, page.headers, page.body)
  await sendPage(deliverer, visit, site, answer, sent, page.isKept ? cacheStatus : 'bypass', undefined)
}

/**
 * Answers with a page that is shared by everybody (Incremental Static Regeneration): a fresh one as it is, a stale one as it is
 * while it is regenerated in the background, and a missing one once it has been generated. If generating fails, the previous page
 * stays.
 *
 * Requests with the deployment's bypass token, and those that its build excludes, are answered by the Function itself; with the
 * token in `x-prerender-revalidate` the page is regenerated before it is sent.
 */
export async function deliverPrerender(
  deliverer: PageDeliverer,
  visit: Visit,
  site: DeployedSite,
  fn: DeployedFunction,
  answer: PrerenderAnswer,
): Promise<void> {
  const { caller, pages, now } = deliverer
  const prerender = site.prerenders.get(answer.path)
  if (!prerender || !isShared(visit, answer, prerender)) {
    await deliverFunction(caller, visit, site, fn, { ...answer, kind: 'function' }, false)
    return
  }
  visit.servedBy = fn.servedBy
  visit.dropBody()
  const shared = sharedRequest(visit, prerender, answer)
  const key = keyOf(shared)
  const token = header(visit.incoming, REVALIDATE_HEADER)
  const isAsked = isToken(token, prerender.rules.bypassTokenHash)
  const revalidating = deliverer.tags.underWay(site.id)
  if (revalidating) await revalidating
  const entry = pages.peek(site.id, key) ?? (await findPage(deliverer, site, key, prerender))
  const nowMs = now().getTime()
  if (entry && !isAsked && nowMs < entry.staleUntil) {
    // A fallback stands in for every page that its Function can generate.
    const isPlaceholder = !entry.page && answer.sharedQuery !== ''
    const isFresh = nowMs < entry.freshUntil && !isPlaceholder
    const begunAt = entry.page?.begunAt ?? prerender.fallback?.builtAt
    const page = ready.get(entry) ?? (await readyPage(deliverer, entry, prerender))
    const sent = sendPage(deliverer, visit, site, answer, page, isFresh ? 'hit' : 'stale', begunAt)
    if (!isFresh) void renew(deliverer, site, shared, { key, begunAt: entry.page?.begunAt })
    await sent
    return
  }
  try {
    if (isAsked) {
      if (!entry && header(visit.incoming, IF_GENERATED_HEADER) !== undefined) {
        await deliverer.caller.deliverInstead(visit, site, answer.fail(404))
        return
      }
      const page = await makePage(deliverer, site, shared, { begunAt: await pages.begin(), token, requestId: visit.id })
      await sendMade(deliverer, visit, site, answer, prerender, page, 'revalidated')
    } else {
      const page = await makeOnce(deliverer, visit, site, shared, key)
      await sendMade(deliverer, visit, site, answer, prerender, page, 'miss')
    }
  } catch (error) {
    if (visit.outgoing.headersSent) throw error
    if (error instanceof AnswerTooLong) await deliverUnkept(deliverer, visit, site, fn, answer)
    else if (error instanceof FunctionFailure) answerFailure(caller, visit, error, undefined, fn)
    else throw error
  }
}

/** Streams a page that is too long to be stored. */
function deliverUnkept(
  { caller }: PageDeliverer,
  visit: Visit,
  site: DeployedSite,
  fn: DeployedFunction,
  answer: PrerenderAnswer,
): Promise<void> {
  return deliverFunction(caller, visit, site, fn, { ...answer, kind: 'function' }, false)
}
