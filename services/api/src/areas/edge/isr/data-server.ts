import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { ApiError, BadRequest, Conflict, NotFound, PayloadTooLarge, Unavailable } from '@platform/errors/api-error'
import type { Db } from '@platform/runtime/database'
import type { Logger } from '@platform/runtime/logger'
import { createSemaphore } from '@platform/service/semaphore'
import { readBody } from '@platform/service/read-body'
import { z } from 'zod'
import type { DeploymentListener } from '../functions/platform-folders.ts'
import type { DataLog } from './data-changes.ts'
import { readData, storeData } from './data.ts'
import type { IsrTags } from './tags.ts'

const MIB = 1_048_576
/** Vercel's limit for results of fetch and `use cache`; pages of a Node server may be longer. */
const VALUE_BYTES_MAX = { data: 2 * MIB, pages: 8 * MIB }
const HEAD_BYTES_MAX = 512 * 1_024
/** Postgres cannot index longer text, whatever its characters. */
const TAG_BYTES_MAX = 2_000
const TAGS_MAX = 256
/** Tags live as long as the deployment, since the pages of its build are older than any of them. */
const TAGS_OF_DEPLOYMENT_MAX = 50_000
/** Limits per deployment and overall: each request may hold a value in memory. */
const TURNS = { own: 8, all: 32, waiting: 1_000 }
/** A client that takes longer to send or read a value gives up its slot. */
const EXCHANGE_MS = 10_000

const tag = z
  .string()
  .min(1)
  .max(1_024)
  .refine((text) => !text.includes('\0') && text.isWellFormed() && Buffer.byteLength(text) <= TAG_BYTES_MAX)
const valueHead = z.strictObject({ tags: z.array(tag).max(TAGS_MAX) })
const revalidation = z.strictObject({
  tags: z.array(tag).max(TAGS_MAX),
  /** How long tagged data may still be shown while it is regenerated; without it, until that is done. */
  expireSeconds: z.number().min(0).max(1e9).optional(),
})
const writerName = /^[\da-f]{16}$/
const valuePath = /^\/(pages|data)\/([\da-f]{64})$/

function parse<T>(schema: z.ZodType<T>, json: string): T {
  let value: unknown
  try {
    value = JSON.parse(json)
  } catch {
    throw new BadRequest('This is not JSON')
  }
  const { data, error } = schema.safeParse(value)
  if (error) throw new BadRequest(z.prettifyError(error))
  return data
}

/** Splits a body into its leading line of JSON and the value. */
function readValue(body: Buffer, bytesMax: number): { tags: string[]; value: Buffer } {
  const end = body.indexOf('\n')
  if (end === -1 || end > HEAD_BYTES_MAX) throw new BadRequest('There is no line of JSON in front of the value')
  const value = body.subarray(end + 1)
  if (value.length > bytesMax) throw new PayloadTooLarge(bytesMax)
  return { ...parse(valueHead, body.toString('utf8', 0, end)), value }
}

interface Options {
  db: Db
  logger: Logger
  tags: IsrTags
  log: DataLog
}

/**
 * Answers the cache handlers of a deployment's slots, over HTTP:
 *
 * - `GET /data/{SHA-256}`, `GET /pages/{SHA-256}`: a value, or 404.
 * - `PUT` of the same: a line of JSON `{ tags }`, then the value; header `x-writer`: 16 hexadecimal digits chosen by the slot.
 * 413 for   more than 2 MiB, for pages 8 MiB.
 * - `GET /changes?since=`: the answer of `DataLog`. `POST /tags?since=`: revalidates `{ tags, expireSeconds? }` and answers the
 *   same.
 *
 * All input is the tenant's, and reaches only rows of its own deployment. 503 if the database cannot be reached.
 */
export function createDataServer({ db, logger, tags, log }: Options): DeploymentListener {
  const refuse = () => new Unavailable('Too many ask this cache at once')
  const inTurn = createSemaphore({ kind: 'cache', slots: TURNS.all, queueMax: TURNS.waiting, refuse })
  const turns = new Map<string, { count: number; inTurn: typeof inTurn }>()

  async function inOwnTurn<T>(deploymentId: string, work: () => Promise<T>): Promise<T> {
    const own = turns.get(deploymentId) ?? {
      count: 0,
      inTurn: createSemaphore({ kind: 'cache of a deployment', slots: TURNS.own, queueMax: TURNS.waiting, refuse }),
    }
    own.count += 1
    turns.set(deploymentId, own)
    try {
      return await own.inTurn(() => inTurn(work))
    } finally {
      own.count -= 1
      if (own.count === 0) turns.delete(deploymentId)
    }
  }

  async function answerValue(
    deploymentId: string,
    [, kind = 'data', hash = '']: RegExpExecArray,
    incoming: IncomingMessage,
    outgoing: ServerResponse,
  ): Promise<void> {
    const key = `${kind}/${hash}`
    if (incoming.method === 'GET') {
      const value = await readData({ db }, deploymentId, key)
      if (!value) throw new NotFound('This is not kept')
      outgoing.writeHead(200, { 'content-length': value.length }).end(value)
      if (!outgoing.writableFinished && !outgoing.closed) await once(outgoing, 'close')
      return
    }
    if (incoming.method !== 'PUT') throw new BadRequest('A value is read or written')
    const bytesMax = VALUE_BYTES_MAX[kind as keyof typeof VALUE_BYTES_MAX]
    const { 'x-writer': writer } = incoming.headers
    if (typeof writer !== 'string' || !writerName.test(writer)) throw new BadRequest('x-writer is missing')
    const value = readValue(await readBody(incoming, bytesMax + HEAD_BYTES_MAX), bytesMax)
    await storeData({ db }, deploymentId, { key, ...value }, log.announce(deploymentId, key, writer))
    log.note(deploymentId, key, writer)
    outgoing.writeHead(204).end()
  }

  async function revalidate(deploymentId: string, incoming: IncomingMessage): Promise<void> {
    const revalidated = parse(revalidation, (await readBody(incoming, HEAD_BYTES_MAX)).toString())
    const { fresh, known } = await log.count(deploymentId, revalidated.tags)
    if (known + fresh > TAGS_OF_DEPLOYMENT_MAX && fresh > 0)
      throw new Conflict(
        `This deployment has revalidated ${TAGS_OF_DEPLOYMENT_MAX} different tags and paths: revalidate a tag that many pages have, or deploy again`,
      )
    await tags.revalidate(deploymentId, revalidated.tags, revalidated.expireSeconds)
  }

  async function answer(deploymentId: string, incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const [path = '', query = ''] = (incoming.url ?? '').split('?', 2)
    const value = valuePath.exec(path)
    if (value) {
      await inOwnTurn(deploymentId, () => answerValue(deploymentId, value, incoming, outgoing))
      return
    }
    if (path === '/tags' && incoming.method === 'POST') {
      const end = tags.begin(deploymentId)
      await inOwnTurn(deploymentId, () => revalidate(deploymentId, incoming)).finally(end)
    } else if (path !== '/changes') throw new NotFound('The cache has no such path')
    const cursor = new URLSearchParams(query).get('since') ?? undefined
    const changes = Buffer.from(JSON.stringify(await log.since(deploymentId, cursor)))
    outgoing.writeHead(200, { 'content-type': 'application/json', 'content-length': changes.length }).end(changes)
  }

  return (deploymentId, incoming, outgoing) => {
    const deadline = setTimeout(() => incoming.destroy(), EXCHANGE_MS).unref()
    outgoing.once('close', () => clearTimeout(deadline))
    answer(deploymentId, incoming, outgoing).catch((error: unknown) => {
      if (outgoing.destroyed || outgoing.headersSent) return
      if (!(error instanceof ApiError)) logger.warn({ err: error, deploymentId }, 'the cache of a deployment failed')
      const { status, message } = error instanceof ApiError ? error : new Unavailable('The cache cannot be reached')
      const body = JSON.stringify({ error: message })
      // The rest of a body would be parsed as the next request.
      outgoing
        .writeHead(status, {
          'content-type': 'application/json',
          'content-length': Buffer.byteLength(body),
          ...(!incoming.complete && { connection: 'close' }),
        })
        .end(body)
    })
  }
}
