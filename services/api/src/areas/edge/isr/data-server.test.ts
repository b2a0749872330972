import { createServer, request, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { once } from 'node:events'
import { createHash } from 'node:crypto'
import { createLogger } from '@platform/runtime/logger'
import { openNotifications, type Notifications } from '@platform/runtime/notifications'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { count, eq, sql } from 'drizzle-orm'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { deploy } from '../../../../test/deploy.ts'
import { newOwner, type Owner } from '../../../../test/scenario.ts'
import { retireDeployment } from '../../deploy/deployments/retirement.ts'
import { openDataLog, type DataChanges } from './data-changes.ts'
import { createDataServer } from './data-server.ts'
import { readData, storeData } from './data.ts'
import { discardData } from './discard-data.ts'
import { isrData, isrTags, isrTotals } from './table.ts'
import { openIsrTags } from './tags.ts'

const MIB = 1_048_576
const writer = '0123456789abcdef'

/** The cache handler part of an edge. The first path segment of a request names the deployment, as its socket would. */
interface Edge {
  server: Server
  notifications: Notifications
}

let platform: TestPlatform
let ana: Owner
let edges: Edge[]

async function openEdge(): Promise<Edge> {
  const logger = createLogger('test', 'silent')
  const notifications = openNotifications(platform.databaseUrl, logger)
  const { db } = platform.api
  const tags = openIsrTags({ db, notifications })
  const serve = createDataServer({ db, logger, tags, log: openDataLog({ db, notifications, tags }) })
  const server = createServer((incoming, outgoing) => {
    const { url = '' } = incoming
    incoming.url = url.slice(37)
    serve(url.slice(1, 37), incoming, outgoing)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return { server, notifications }
}

beforeAll(async () => {
  platform = await startPlatform()
  ana = await newOwner(platform)
  edges = [await openEdge(), await openEdge()]
})
afterAll(async () => {
  for (const { server, notifications } of edges) {
    server.close()
    server.closeAllConnections()
    await notifications.close()
  }
  await platform.close()
})

const newSite = async () => (await deploy(platform, ana, { files: { 'index.html': '' } })).id
const path = (name: string, kind = 'data') => `/${kind}/${createHash('sha256').update(name).digest('hex')}`
const framed = (value: string | Buffer, tags: unknown = []) =>
  Buffer.concat([Buffer.from(`${JSON.stringify({ tags })}\n`), Buffer.from(value)])

async function ask(
  id: string,
  method: string,
  target: string,
  body?: string | Buffer,
  { edge = 0, headers = { 'x-writer': writer } }: { edge?: number; headers?: Record<string, string> } = {},
): Promise<{ status: number; text: string }> {
  const { port } = edges.at(edge)!.server.address() as AddressInfo
  const sent = request({ host: '127.0.0.1', port, method, path: `/${id}${target}`, headers })
  sent.on('error', () => {})
  sent.end(body)
  const [answer] = await once(sent, 'response')
  return { status: answer.statusCode, text: Buffer.concat(await answer.toArray()).toString() }
}
const changes = async (id: string, since = '', edge = 0): Promise<DataChanges> =>
  JSON.parse((await ask(id, 'GET', `/changes?since=${since}`, undefined, { edge })).text)
const revalidate = (id: string, body: unknown) => ask(id, 'POST', '/tags', JSON.stringify(body))

test('a value is read as it was written, by its own deployment and by no other', async () => {
  const [one, other] = [await newSite(), await newSite()]
  expect((await ask(one, 'GET', path('a'))).status).toBe(404)
  expect((await ask(one, 'PUT', path('a'), framed('first', ['posts']))).status).toBe(204)
  expect((await ask(one, 'PUT', path('a'), framed('second\nline', ['posts']))).status).toBe(204)
  expect(await ask(one, 'GET', path('a'))).toEqual({ status: 200, text: 'second\nline' })
  expect((await ask(other, 'GET', path('a'))).status).toBe(404)
  const [totals] = await platform.api.db.select().from(isrTotals).where(eq(isrTotals.deploymentId, one))
  expect(totals).toMatchObject({ data: 1, dataBytes: 'second\nline'.length + 200 })
})

test('what is no value is refused, and leaves nothing', async () => {
  const id = await newSite()
  const tooLong = Buffer.alloc(2 * MIB + 1)
  expect((await ask(id, 'PUT', path('a'), framed(tooLong))).status).toBe(413)
  expect((await ask(id, 'PUT', path('a'), Buffer.alloc(9 * MIB))).status).toBe(413)
  expect((await ask(id, 'PUT', path('a', 'pages'), framed(tooLong))).status).toBe(204)
  expect((await ask(id, 'PUT', path('b', 'pages'), framed(Buffer.alloc(8 * MIB + 1)))).status).toBe(413)
  for (const body of ['', 'no line', '{}\nvalue', 'null\nvalue', '{"tags":[""]}\n', '{"tags":["\\u0000"]}\n'])
    expect(await ask(id, 'PUT', path('b'), body), body).toMatchObject({ status: 400 })
  expect((await ask(id, 'PUT', path('b'), framed('', ['\ud800']))).status).toBe(400)
  expect((await ask(id, 'PUT', path('b'), framed('', ['x'.repeat(1_025)]))).status).toBe(400)
  expect((await ask(id, 'PUT', path('b'), framed('', ['\u{1f600}'.repeat(501)]))).status).toBe(400)
  expect((await ask(id, 'PUT', path('b'), framed('', Array.from({ length: 257 }, String)))).status).toBe(400)
  expect((await ask(id, 'PUT', path('b'), framed(''), { headers: {} })).status).toBe(400)
  for (const target of ['/', '/data/', '/data/..', `${path('b')}0`, path('b').toUpperCase(), path('b', 'other')])
    expect(await ask(id, 'PUT', target, framed('')), target).toMatchObject({ status: 404 })
  expect((await ask(id, 'DELETE', path('a'))).status).toBe(400)
  const [kept] = await platform.api.db.select({ count: count() }).from(isrData).where(eq(isrData.deploymentId, id))
  expect(kept?.count).toBe(1)
})

test('the oldest values make room', async () => {
  const id = await newSite()
  const { db } = platform.api
  const put = (key: string, bytes: number) =>
    storeData(
      { db },
      id,
      { key, value: Buffer.alloc(bytes), tags: [] },
      { channel: 'isr_data', message: `${id} ${key} ${writer}` },
      { bytesMax: 3_000, entriesMax: 10 },
    )
  for (const key of ['a', 'b', 'c']) await put(key, 700)
  expect(await readData({ db }, id, 'a')).toHaveLength(700)
  await put('d', 700)
  expect(await readData({ db }, id, 'a')).toBeUndefined()
  expect(await readData({ db }, id, 'd')).toHaveLength(700)
  await Promise.all(Array.from({ length: 30 }, (_, n) => put(`n${n}`, 0)))
  const [totals] = await db.select().from(isrTotals).where(eq(isrTotals.deploymentId, id))
  const rows = await db.select({ bytes: isrData.bytes }).from(isrData).where(eq(isrData.deploymentId, id))
  expect(totals?.data).toBeLessThanOrEqual(10)
  expect(totals).toMatchObject({ data: rows.length, dataBytes: rows.reduce((sum, { bytes }) => sum + bytes, 0) })
})

test('a tag that was revalidated is told with its moments, once to each cursor', async () => {
  const id = await newSite()
  const before = await changes(id)
  expect(before).toMatchObject({ isWhole: true, tags: [], keys: [] })
  const momentOf = async () => (await platform.api.isrPages.begin()).getTime()
  const revalidatedAfter = await momentOf()
  const answer = await revalidate(id, { tags: ['posts', 'posts'], expireSeconds: 0 })
  const revalidatedBefore = await momentOf()
  const [told] = (JSON.parse(answer.text) as DataChanges).tags
  const [tag, staleAt, expiredAt] = told ?? []
  expect([tag, expiredAt]).toEqual(['posts', staleAt])
  // By the database's clock; it tells moments in milliseconds, rounded.
  expect(Number(staleAt)).toBeGreaterThanOrEqual(revalidatedAfter - 1)
  expect(Number(staleAt)).toBeLessThanOrEqual(revalidatedBefore + 1)
  const after = await changes(id, before.cursor)
  expect(after).toMatchObject({ isWhole: false, tags: [told] })
  expect(after.now).toBeGreaterThan(Number(staleAt))
  expect(await changes(id, after.cursor)).toMatchObject({ isWhole: false, tags: [], cursor: after.cursor })
  // The notification of a change, which may arrive long after its process has read it.
  await platform.api.db.execute(sql`select pg_notify('isr_tags', ${`${id}["posts"]`})`)
  await revalidate(id, { tags: ['later'], expireSeconds: 60 })
  await revalidate(id, { tags: ['shown'] })
  const { tags } = await changes(id, after.cursor)
  expect(tags.map(([name, stale, expired]) => [name, expired === null ? null : expired - stale])).toEqual([
    ['later', 60_000],
    ['shown', null],
  ])
  expect((await changes(id)).tags).toHaveLength(3)
})

test('another edge tells of what was revalidated and stored within a second', async () => {
  const id = await newSite()
  const { cursor } = await changes(id, '', 1)
  await revalidate(id, { tags: ['posts'], expireSeconds: 0 })
  await ask(id, 'PUT', path('a'), framed('value'))
  const soon = { interval: 5 }
  await expect
    .poll(() => changes(id, cursor, 1), soon)
    .toMatchObject({
      isWhole: false,
      tags: [['posts', expect.any(Number), expect.any(Number)]],
      keys: [[path('a').slice(1), writer]],
    })
})

test('a cursor that nobody gave is one of nothing', async () => {
  const id = await newSite()
  await revalidate(id, { tags: ['posts'] })
  for (const cursor of ['x', '.', 'a.b.c', '1.NaN', '%00'])
    expect(await changes(id, cursor)).toMatchObject({ isWhole: true, tags: [['posts', expect.any(Number), null]] })
})

test.each([
  ['no JSON', '{'],
  ['no tags', '{}'],
  ['a tag that is no text', '{"tags":[1]}'],
  ['more members', '{"tags":[],"deploymentId":"x"}'],
  ['a negative time', '{"tags":["a"],"expireSeconds":-1}'],
])('a revalidation with %s is refused', async (_, body) => {
  expect((await ask(await newSite(), 'POST', '/tags', body)).status).toBe(400)
})

test('a deployment revalidates 50,000 different tags and no more, and those again', async () => {
  const id = await newSite()
  await platform.api.db.execute(
    sql`insert into ${isrTags} (deployment_id, tag, stale_at) select ${id}::uuid, 'tag ' || n, now() from generate_series(1, 49999) n`,
  )
  expect((await revalidate(id, { tags: ['new', 'newer'] })).status).toBe(409)
  expect((await revalidate(id, { tags: ['new'] })).status).toBe(200)
  expect((await revalidate(id, { tags: ['newer'] })).status).toBe(409)
  expect((await revalidate(id, { tags: ['tag 1', 'new'] })).status).toBe(200)
  expect(await platform.api.db.$count(isrTags, eq(isrTags.deploymentId, id))).toBe(50_000)
  expect((await revalidate(await newSite(), { tags: ['newer'] })).status).toBe(200)
})

test('a deployment that was retired loses its values and tags', async () => {
  const [old, kept] = [await newSite(), await newSite()]
  for (const id of [old, kept]) {
    await ask(id, 'PUT', path('a'), framed('value'))
    await revalidate(id, { tags: ['posts'] })
  }
  await retireDeployment(platform.api, old)
  await discardData(platform.api)
  for (const table of [isrData, isrTags, isrTotals]) {
    const rowsOf = async (id: string) =>
      (await platform.api.db.select({ count: count() }).from(table).where(eq(table.deploymentId, id)))[0]?.count
    expect([await rowsOf(old), await rowsOf(kept)]).toEqual([0, 1])
  }
})
