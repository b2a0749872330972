import { Readable } from 'node:stream'
import type { Answer, HeaderPairs } from '@platform/build-output/router'
import { FunctionFailure, type Lease } from '@platform/function-runtime/function-runtime'
import { bareEtag, namesEtag } from '@platform/service/entity-tag'
import type { Encoding } from '../../deploy/artifacts/artifact-blobs.ts'
import type { CacheStatus } from '../../observe/request-logs/table.ts'
import type { KeptPage } from '../isr/pages.ts'
import type { IsrTags } from '../isr/tags.ts'
import { statusFor } from './answer-headers.ts'
import { beginAnswer } from './begin-answer.ts'
import { callFunction } from './call-function.ts'
import { copyIn } from './compressed-copies.ts'
import { ClientLeft, failureOf, headersFor, sayFailure } from './deliver-function.ts'
import type { FileReader } from './deliver-file.ts'
import type { DeployedSite } from './deployed-site.ts'
import type { PostponedPage } from './kept-answer.ts'
import type { MadePage, PageMaker } from './make-page.ts'
import { encodingFor, isLongEnough, isNegotiable } from './negotiate-encoding.ts'
import { headersOf, mergedHeaders, type ReadyPage } from './ready-page.ts'
import type { Visit } from './visit.ts'

export type PrerenderAnswer = Extract<Answer, { kind: 'prerender' }>

/** What is needed to deliver pages. */
export interface PageDeliverer extends PageMaker {
  reader: FileReader
  tags: Pick<IsrTags, 'underWay'>
  /** Pages that visitors wait for. */
  making: Map<string, Promise<MadePage>>
  /** Pages being regenerated while they are shown: keys by deployment. */
  renewing: Map<string, Set<string>>
}

/** Headers of a body, which a 304 has none of. */
const ofBody = new Set(['content-type', 'content-encoding'])

/** Whom a page is sent to, and as what. */
interface PageSending {
  cacheStatus: Exclude<CacheStatus, null>
  /** When it was begun, in milliseconds since 1970; undefined: just now. */
  begunAt: number | undefined
  /** Called when a compressed copy of the page has been made. */
  onCopy(): void
}

/** Sends a page. The shell of a partially prerendered one goes out at once, the remainder as the Function generates it. */
export async function sendPage(
  deliverer: PageDeliverer,
  visit: Visit,
  site: DeployedSite,
  answer: PrerenderAnswer,
  page: ReadyPage,
  { cacheStatus, begunAt, onCopy }: PageSending,
): Promise<void> {
  visit.cacheStatus = cacheStatus
  const status = statusFor(page.status, answer)
  const own: string[] = []
  if (begunAt !== undefined) {
    const age = Math.max(0, Math.floor((deliverer.now().getTime() - begunAt) / 1_000))
    own.push('age', String(age))
  }
  own.push('x-cache', cacheStatus.toUpperCase())
  if (cacheStatus === 'revalidated') own.push('x-vercel-cache', 'REVALIDATED')
  const merged = mergedHeaders(page, answer, visit.hostname)
  if (page.postponed) {
    await sendInTwo(deliverer, visit, site, answer, page.postponed, status, [...merged.pairs, ...pairsIn(own)])
    return
  }
  const length = page.body?.length ?? page.blob?.bytes ?? 0
  const mayEncode = merged.isEncodable && isLongEnough(status, length) && isNegotiable(visit)
  const encoding = mayEncode ? encodingFor(visit) : undefined
  const headers = [...headersOf(merged, mayEncode, encoding), ...own]
  const { 'if-none-match': tags } = visit.incoming.headers
  if (status === 200 && page.etag !== undefined && tags !== undefined && namesEtag(tags, bareEtag(page.etag))) {
    visit.send(
      304,
      headers.filter((_, n) => !ofBody.has(headers[n & ~1] ?? '')),
    )
    return
  }
  if (status === 204 || status === 304 || (encoding && visit.method === 'HEAD')) {
    visit.send(status, headers)
    return
  }
  const found = encoding && copyOf(deliverer, page, length, encoding, onCopy)
  const copy = found instanceof Promise ? await found : found
  if (copy) {
    visit.send(status, headers, copy)
    return
  }
  const plain = [...headersOf(merged, mayEncode, undefined), ...own, 'content-length', String(length)]
  if (page.body ?? visit.method === 'HEAD') visit.send(status, plain, page.body)
  else if (page.blob)
    await visit.stream(
      status,
      plain,
      deliverer.reader.blobs.read(page.blob.blobId, { start: 0, end: length - 1 }, 'borrowed'),
    )
}

/** A compressed copy of a page; undefined: it is sent as it is. */
function copyOf(
  { caller, reader }: PageDeliverer,
  { copies, body, blob }: ReadyPage,
  length: number,
  encoding: Encoding,
  onCopy: () => void,
): ReturnType<typeof copyIn> {
  const read = () => body ?? (blob && wholeOf(reader, blob)) ?? Buffer.alloc(0)
  return copyIn(copies, encoding, caller.compressors, { length, read }, onCopy)
}

/** The body of a long page. */
export const wholeOf = async ({ blobs }: FileReader, { blobId, bytes }: Pick<KeptPage, 'blobId' | 'bytes'>) =>
  Buffer.concat(await Array.fromAsync(blobs.read(blobId, { start: 0, end: bytes - 1 }, 'owned')))

function pairsIn(flat: readonly string[]): HeaderPairs {
  const pairs: HeaderPairs = []
  for (let n = 0; n < flat.length; n += 2) pairs.push([flat[n] ?? '', flat[n + 1] ?? ''])
  return pairs
}

/** Sends the stored shell, followed by what the Function generates from its state for this visitor; compressed as a stream. */
async function sendInTwo(
  { caller }: PageDeliverer,
  visit: Visit,
  site: DeployedSite,
  answer: PrerenderAnswer,
  { state, shell }: PostponedPage,
  status: number,
  headers: HeaderPairs,
): Promise<void> {
  const { chain } = site.prerenders.get(answer.path)?.rules ?? {}
  const fn = chain && site.functions.get(chain.path)
  const body = beginAnswer(visit, caller.compressors, { status, headers, length: undefined })
  if (!body) return
  if (visit.method !== 'HEAD') body.write(shell, () => {})
  if (!fn || visit.method === 'HEAD') {
    body.end()
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
        onData: (chunk) => body.write(chunk, () => control.resume()),
        onEnd() {
          body.end()
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
