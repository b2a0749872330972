import { timingSafeEqual } from 'node:crypto'
import { hashToken } from '@platform/build-output/read-prerender'
import { FunctionFailure } from '@platform/function-runtime/function-runtime'
import { header } from '../../../http/exchange.ts'
import type { Found } from '../isr/pages.ts'
import { AnswerTooLong } from './call-function.ts'
import { sizeOfCopies } from './compressed-copies.ts'
import { answerFailure, deliverFunction } from './deliver-function.ts'
import { readFile } from './deliver-file.ts'
import type { DeployedPrerender } from './deployed-prerender.ts'
import type { DeployedFunction, DeployedSite } from './deployed-site.ts'
import { isPostponed } from './kept-answer.ts'
import { groupKeyOf, keyOf, type MadePage, makePage, sharedRequest, type SharedRequest } from './make-page.ts'
import { prepare, type ReadyPage } from './ready-page.ts'
import { type PageDeliverer, type PrerenderAnswer, sendPage, wholeOf } from './send-prerendered.ts'
import type { Visit } from './visit.ts'

const BYPASS_COOKIE = '__prerender_bypass'
const REVALIDATE_HEADER = 'x-prerender-revalidate'
const IF_GENERATED_HEADER = 'x-prerender-revalidate-if-generated'
/** Pages of a deployment that are regenerated at a time; others stay as they are until they are requested again. */
const RENEWALS_MAX = 32

/** By what they were made of. */
const ready = new WeakMap<Found | MadePage, ReadyPage>()

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

async function readyPage({ reader }: PageDeliverer, entry: Found, { fallback }: DeployedPrerender): Promise<ReadyPage> {
  const known = ready.get(entry)
  if (known) return known
  const { page } = entry
  let made: ReadyPage
  if (page)
    made = prepare(
      page.status,
      page.headers,
      page.body ?? (isPostponed(page.headers) ? await wholeOf(reader, page) : undefined),
      page,
    )
  else if (fallback) made = prepare(fallback.status, fallback.headers, await readFile(reader, fallback.file))
  else throw new Error('There is neither a page nor a fallback')
  ready.set(entry, made)
  return made
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
  // Visitors who waited for the same page share its compressed copy.
  let sent = ready.get(page)
  if (!sent) ready.set(page, (sent = prepare(page.status, page.headers, page.body)))
  await sendPage(deliverer, visit, site, answer, sent, {
    cacheStatus: page.isKept ? cacheStatus : 'bypass',
    begunAt: undefined,
    onCopy() {},
  })
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
    const sent = sendPage(deliverer, visit, site, answer, page, {
      cacheStatus: isFresh ? 'hit' : 'stale',
      begunAt,
      onCopy: () => pages.countCopies(site.id, key, entry, sizeOfCopies(page.copies)),
    })
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
