import { randomUUID } from 'node:crypto'
import { canonicalQuery, withQuery } from '@platform/build-output/query'
import type { Answer, HeaderPairs } from '@platform/build-output/router'
import { encodeText } from '@platform/build-output/normalize-path'
import { LRUCache } from 'lru-cache'
import { FunctionFailure, type Lease } from '@platform/function-runtime/function-runtime'
import { entriesMax } from '@platform/runtime/entries-max'
import { type IsrPages, type NewPage, pageKey } from '../isr/pages.ts'
import { AnswerTooLong, type FunctionCall, readCall } from './call-function.ts'
import { sayFailure, unreadable } from './deliver-function.ts'
import type { DeployedPrerender } from './deployed-prerender.ts'
import type { DeployedFunction, DeployedSite } from './deployed-site.ts'
import type { FunctionCaller } from './function-caller.ts'
import { cleanAnswerHeaders } from './headers.ts'
import { isKept, isPostponed, keptHeaders, lifetimeOf, splitPostponed, tagsOf } from './kept-answer.ts'
import type { Visit } from './visit.ts'

/** Longer pages are streamed, and not stored. */
const PAGE_BYTES_MAX = 16_777_216
/** Headers that are personal or set by the platform, whatever a build wants its pages to vary by. */
const ownNames = /^(?:host$|cookie$|authorization$|content-|x-forwarded-|x-real-ip$|x-request-id$)/

/** The request for a shared page: nothing else of a visitor reaches the Function that generates it. */
export interface SharedRequest {
  /** Path of its Function in the output. */
  path: string
  /** Path that the Function is called with. */
  sharedPath: string
  /** The matched path, as reported to the Function. */
  matchedPath: string
  sharedQuery: string
  sharedMatches: string
  /** Those of the visitor's headers that the page may vary by. */
  headers: Record<string, string | string[]>
  hostname: string
  host: string
  protocol: string
}

/** A Prerender Function's response that is not personal. */
export interface MadePage {
  status: number
  headers: HeaderPairs
  body: Buffer
  /** True if it may be shown to others. */
  isKept: boolean
}

export function sharedRequest(
  visit: Visit,
  { rules }: DeployedPrerender,
  answer: Extract<Answer, { kind: 'prerender' }>,
): SharedRequest {
  const headers: SharedRequest['headers'] = {}
  for (const name of rules.allowHeader ?? []) {
    const value = ownNames.test(name) ? undefined : visit.headers[name]
    if (value !== undefined) headers[name] = value
  }
  const { path, sharedPath, sharedQuery, sharedMatches } = answer
  const matchedPath = answer.requestHeaders.find(([name]) => name === 'x-matched-path')?.[1] ?? ownPath(path)
  const { hostname, host, protocol } = visit
  return { path, sharedPath, matchedPath, sharedQuery, sharedMatches, headers, hostname, host, protocol }
}

/** Keys of popular pages, by their inputs if these are short. */
const keys = new LRUCache<string, string>({ ...entriesMax(20_000) })
const NAME_LENGTH_MAX = 512

export function keyOf({ path, sharedPath, sharedQuery, headers, hostname }: SharedRequest): string {
  const differs =
    Object.keys(headers).length > 0
      ? JSON.stringify(Object.entries(headers).toSorted(([a], [b]) => (a < b ? -1 : 1)))
      : ''
  const name = `${path}\n${sharedPath}\n${hostname}\n${sharedQuery}\n${differs}`
  const known = keys.get(name)
  if (known !== undefined) return known
  const key = pageKey([path, sharedPath, hostname, sharedQuery, differs])
  if (name.length <= NAME_LENGTH_MAX) keys.set(name, key)
  return key
}

/** The path at which a Function answers by itself. */
const ownPath = (path: string): string => `/${path.replace(/(?:^|\/)index$/, '')}`

/** The same page in another form: as data, or a part of it. */
function memberOf(shared: SharedRequest, path: string, { rules }: DeployedPrerender): SharedRequest {
  if (path === shared.path) return shared
  const headers = Object.fromEntries(
    Object.entries(shared.headers).filter(([name]) => rules.allowHeader?.includes(name) === true),
  )
  return {
    ...shared,
    path,
    sharedPath: ownPath(path),
    matchedPath: ownPath(path),
    sharedQuery: canonicalQuery(shared.sharedQuery, rules.allowQuery),
    sharedMatches: canonicalQuery(shared.sharedMatches, rules.allowQuery),
    headers,
  }
}

/** The key of a page's group, whose pages are generated together: that of its first member. */
export function groupKeyOf(site: DeployedSite, shared: SharedRequest): string {
  const [first = shared.path] = site.prerenders.get(shared.path)?.group ?? []
  const prerender = site.prerenders.get(first)
  return keyOf(prerender ? memberOf(shared, first, prerender) : shared)
}

/** What is needed to generate pages. */
export interface PageMaker {
  caller: FunctionCaller
  pages: IsrPages
  now: () => Date
}

/** Why and for whom a page is generated. */
export interface Making {
  /** By the database's clock. undefined: the database is unavailable, and nothing can be stored. */
  begunAt: Date | undefined
  /** `bypassToken`, from the client that requested the regeneration. */
  token?: string | undefined
  /** Id of the visit that waits for it. */
  requestId?: string | undefined
}

function callFor(shared: SharedRequest, site: DeployedSite, invocationId: string, making: Making): FunctionCall {
  const passesQuery = site.prerenders.get(shared.path)?.rules.passQuery === true
  const path = encodeText(shared.sharedPath)
  return {
    method: 'GET',
    path: passesQuery ? withQuery(path, shared.sharedQuery) : path,
    headers: {
      ...shared.headers,
      host: shared.host,
      'x-forwarded-host': shared.host,
      'x-forwarded-proto': shared.protocol,
      'x-matched-path': encodeText(shared.matchedPath),
      // Without this id Next.js may answer from a memory of ten seconds; pages of one group share it, so they are consistent.
      'x-invocation-id': invocationId,
      ...(!passesQuery && shared.sharedMatches !== '' && { 'x-now-route-matches': shared.sharedMatches }),
      ...(making.token !== undefined && { 'x-prerender-revalidate': making.token }),
      ...(making.requestId !== undefined && { 'x-request-id': making.requestId }),
    },
    body: null,
  }
}

/** The stored pages of a group that are to be regenerated together. */
async function findMembers({ pages }: PageMaker, site: DeployedSite, shared: SharedRequest): Promise<SharedRequest[]> {
  const members: SharedRequest[] = []
  for (const path of site.prerenders.get(shared.path)?.group ?? []) {
    const prerender = site.prerenders.get(path)
    if (!prerender || path === shared.path) continue
    const member = memberOf(shared, path, prerender)
    if (await pages.find(site.id, keyOf(member), prerender.fallback)) members.push(member)
  }
  return members
}

/**
 * Generates a page and its group by calling the Function anonymously, and stores what may be stored. Resolves with the page
 * whether or not it was stored; with a token it throws if storing failed. Throws FunctionFailure, AnswerTooLong, and Unavailable.
 */
export async function makePage(
  maker: PageMaker,
  site: DeployedSite,
  shared: SharedRequest,
  making: Making,
): Promise<MadePage> {
  const { caller, pages, now } = maker
  const invocationId = randomUUID()
  const fn = functionOf(site, shared.path)
  // If nothing can be stored, only the page itself is generated: nobody would see its group.
  const members = making.begunAt ? await findMembers(maker, site, shared) : []
  const made: NewPage[] = []

  async function make(one: SharedRequest, lease: Lease): Promise<MadePage> {
    const call = callFor(one, site, invocationId, making)
    const answer = await readCall(lease, call, caller.timings, site.id, PAGE_BYTES_MAX)
    const { status, body } = answer
    const headers = keptHeaders(cleanAnswerHeaders(answer.headers, one.hostname))
    const prerender = site.prerenders.get(one.path)
    const { begunAt } = making
    if (isPostponed(headers) && !splitPostponed(headers, body))
      throw new FunctionFailure('function_crashed', 'Its page is kept in part, and does not say where its state ends.')
    const page = { status, headers, body, isKept: begunAt !== undefined && isKept(status, answer.headers) }
    if (!prerender || !begunAt || !page.isKept) return page
    const { freshUntil, staleUntil } = lifetimeOf(prerender.rules, answer.headers, now().getTime())
    made.push({
      begunAt,
      key: keyOf(one),
      path: one.path,
      status,
      headers,
      tags: tagsOf(answer.headers),
      body,
      freshUntil: freshUntil === Infinity ? undefined : new Date(freshUntil),
      staleUntil: staleUntil === Infinity ? undefined : new Date(staleUntil),
    })
    return page
  }

  /** A page that fails does not affect the others of its group. */
  const leftOut = (member: SharedRequest) => (error: unknown) =>
    caller.deps.logger.info({ err: error, deploymentId: site.id, path: member.path }, 'a page was not made anew')
  const isBeside = (member: SharedRequest): boolean => functionOf(site, member.path).id === fn.id
  const page = await withSlot(caller, fn, making.requestId, async (lease) => {
    const first = await make(shared, lease)
    // In the same process, which still has in memory what it just generated.
    if (first.isKept) for (const member of members.filter(isBeside)) await make(member, lease).catch(leftOut(member))
    return first
  })
  if (page.isKept)
    for (const member of members.filter((one) => !isBeside(one)))
      await withSlot(caller, functionOf(site, member.path), undefined, (lease) => make(member, lease)).catch(
        leftOut(member),
      )
  if (made.length > 0)
    await pages.store(site.id, made).catch((error: unknown) => {
      // Whoever requested the regeneration relies on it.
      if (making.token !== undefined) throw error
      // It is shown all the same, and regenerated for the next visitor.
      caller.deps.logger.warn({ err: error, deploymentId: site.id, path: shared.path }, 'a page was not kept')
    })
  return page
}

function functionOf(site: DeployedSite, path: string): DeployedFunction {
  const fn = site.functions.get(path)
  if (!fn) throw new Error(`Deployment ${site.id} keeps pages of the Function ${path}, which it does not have`)
  return fn
}

/**
 * Calls a slot for a page, and retries once if the slot had gone. Throws FunctionFailure, which is in the Function's log by then.
 */
async function withSlot<T>(
  caller: FunctionCaller,
  fn: DeployedFunction,
  requestId: string | undefined,
  work: (lease: Lease) => Promise<T>,
): Promise<T> {
  const { functions } = caller.deps
  for (let tries = 1; ; tries++) {
    const lease = await functions.acquire(fn.deploymentId, fn.id)
    try {
      return await work(lease)
    } catch (error) {
      if (error instanceof AnswerTooLong) throw error
      const failure = error instanceof FunctionFailure ? error : await lease.failure()
      if (failure === undefined && tries === 1) continue
      const told = failure ?? unreadable(error)
      sayFailure(functions, fn, lease, requestId, told)
      throw told
    } finally {
      lease.release()
    }
  }
}
