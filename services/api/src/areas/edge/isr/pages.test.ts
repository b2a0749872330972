// engines: postgres
import { newId } from '@platform/runtime/new-id'
import type { Notifications } from '@platform/runtime/notifications'
import { holding } from '@platform/testkit/holding'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { eq, type SQL, sql } from 'drizzle-orm'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { deploy } from '../../../../test/deploy.ts'
import { newOwner, type Owner } from '../../../../test/scenario.ts'
import { retireDeployment } from '../../deploy/deployments/retirement.ts'
import { collectGarbage } from '../../storage/objects/maintenance/collect-garbage.ts'
import { blobs } from '../../storage/objects/table.ts'
import { discardPages } from './discard-pages.ts'
import { openIsrPages } from './open-pages.ts'
import { type Found, type NewPage, pageKey } from './pages.ts'
import { storePages } from './store-pages.ts'
import { isrPages, isrTotals } from './table.ts'
import { openIsrTags } from './tags.ts'

let platform: TestPlatform
let ana: Owner
beforeAll(async () => {
  platform = await startPlatform()
  ana = await newOwner(platform)
})
afterAll(() => platform.close())

const page = (name: string, bytes = 10): Omit<NewPage, 'begunAt'> => ({
  key: pageKey([name]),
  path: name,
  status: 200,
  headers: [['content-type', 'text/plain']],
  tags: ['tag'],
  body: Buffer.alloc(bytes, name),
  freshUntil: undefined,
  staleUntil: undefined,
})
const store = (
  id: string,
  begunAt: Date,
  pages: Omit<NewPage, 'begunAt'>[],
  limits?: Parameters<typeof storePages>[2],
) =>
  storePages(
    platform.api,
    { deploymentId: id, pages: pages.map((each) => ({ ...each, begunAt })), channel: 'isr_pages', self: 'test' },
    limits,
  )
const pathsOf = async (id: string) =>
  (await platform.api.db.select().from(isrPages).where(eq(isrPages.deploymentId, id)))
    .map(({ path }) => path)
    .toSorted()
const totalsOf = async (id: string) =>
  (await platform.api.db.select().from(isrTotals).where(eq(isrTotals.deploymentId, id)))[0]
const at = (ms: number) => new Date(1_800_000_000_000 + ms)

test('a page that was begun later stays, whichever is stored last', async () => {
  const { id } = await deploy(platform, ana, { files: { 'index.html': '' } })
  await store(id, at(2), [{ ...page('a'), body: Buffer.from('later') }])
  await store(id, at(1), [{ ...page('a'), body: Buffer.from('earlier, and longer') }, page('b')])
  const entry = await platform.api.isrPages.find(id, pageKey(['a']), undefined)
  expect(entry?.page?.body?.toString()).toBe('later')
  expect(await totalsOf(id)).toMatchObject({ pages: 2, pageBytes: 15 })
})

test('the oldest pages make room for more', async () => {
  const { id } = await deploy(platform, ana, { files: { 'index.html': '' } })
  const limits = { bytesMax: 1_000, pagesMax: 5 }
  for (const [n, name] of ['a', 'b', 'c', 'd', 'e', 'f'].entries()) await store(id, at(n), [page(name)], limits)
  expect(await pathsOf(id)).toEqual(['c', 'd', 'e', 'f'])
  await store(id, at(10), [page('g', 980)], limits)
  expect(await pathsOf(id)).toEqual([])
  await store(id, at(11), [page('h', 900)], limits)
  expect(await pathsOf(id)).toEqual(['h'])
  expect(await totalsOf(id)).toMatchObject({ pages: 1, pageBytes: 900 })
})

test('two that store the same pages at the same time store them once', async () => {
  const { id } = await deploy(platform, ana, { files: { 'index.html': '' } })
  const names = ['a', 'b', 'c', 'd']
  await Promise.all(
    Array.from({ length: 8 }, (_, n) =>
      store(
        id,
        at(n),
        (n % 2 ? names : names.toReversed()).map((name) => page(name)),
      ),
    ),
  )
  expect(await pathsOf(id)).toEqual(names)
  expect(await totalsOf(id)).toMatchObject({ pages: 4, pageBytes: 40 })
})

test('two that store different pages at the same time are both counted', async () => {
  const { id } = await deploy(platform, ana, { files: { 'index.html': '' } })
  await store(id, at(0), [page('a')])
  await holding(platform.databaseUrl, (held) => held`select from isr_totals where deployment_id = ${id} for update`, [
    () => store(id, at(1), [page('b')]),
    () => store(id, at(1), [page('c')]),
  ])
  expect(await pathsOf(id)).toEqual(['a', 'b', 'c'])
  expect(await totalsOf(id)).toMatchObject({ pages: 3, pageBytes: 30 })
})

test('a deployment that is gone takes none', async () => {
  await expect(store(newId(), at(0), [page('a')])).resolves.toBeUndefined()
})

test('pages go with their deployment, and their bytes with them', async () => {
  const { id } = await deploy(platform, ana, { files: { 'index.html': '' } })
  await deploy(platform, ana, { files: { 'index.html': 'another' } })
  await store(id, at(0), [page('a', 100_000)])
  const [row] = await platform.api.db
    .select({ blobId: isrPages.blobId })
    .from(isrPages)
    .where(eq(isrPages.deploymentId, id))
  const blobId = row?.blobId ?? ''
  const stateOf = async () => (await platform.api.db.select().from(blobs).where(eq(blobs.id, blobId)))[0]?.state
  await retireDeployment(platform.api, id)
  await discardPages(platform.api)
  expect(await pathsOf(id)).toEqual([])
  await collectGarbage(platform.api)
  expect(await stateOf()).toBe('dead')
})

describe('a page that was being looked up', () => {
  /** Hears at once, and nothing: only what this process does itself can outdate a look-up. */
  const notifications: Notifications = { listen: (_, { onListening }) => onListening(), close: async () => {} }

  /** Pages of one process, whose look-up of 'a' has read the page and is not told before `answer` is called. */
  async function lookUpSlowly(id: string) {
    const hasRead = Promise.withResolvers<void>()
    const isHeld = Promise.withResolvers<void>()
    const db = Object.create(platform.api.db, {
      execute: {
        value: async (query: SQL) => {
          const rows = await platform.api.db.execute(query)
          hasRead.resolve()
          await isHeld.promise
          return rows
        },
      },
    }) as typeof platform.api.db
    const tags = openIsrTags({ db: platform.api.db, notifications })
    const pages = openIsrPages({ ...platform.api, db, notifications, tags })
    const lookUp = pages.find(id, pageKey(['a']), undefined)
    await hasRead.promise
    return { pages, tags, lookUp, answer: isHeld.resolve }
  }
  const textOf = (found: Found | undefined) => found?.page?.body?.toString()

  test('is kept if nothing happened meanwhile', async () => {
    const { id } = await deploy(platform, ana, { files: { 'index.html': '' } })
    await store(id, at(1), [{ ...page('a'), body: Buffer.from('first') }])
    const { pages, lookUp, answer } = await lookUpSlowly(id)
    answer()
    expect(textOf(await lookUp)).toBe('first')
    expect(textOf(pages.peek(id, pageKey(['a'])))).toBe('first')
  })

  test('is not kept if a newer one was stored meanwhile', async () => {
    const { id } = await deploy(platform, ana, { files: { 'index.html': '' } })
    await store(id, at(1), [{ ...page('a'), body: Buffer.from('first') }])
    const { pages, lookUp, answer } = await lookUpSlowly(id)
    await pages.store(id, [{ ...page('a'), begunAt: at(2), body: Buffer.from('second') }])
    answer()
    await lookUp
    expect(pages.peek(id, pageKey(['a']))).toBeUndefined()
    expect(textOf(await pages.find(id, pageKey(['a']), undefined))).toBe('second')
  })

  test('is not kept as fresh if its tag was revalidated meanwhile', async () => {
    const { id } = await deploy(platform, ana, { files: { 'index.html': '' } })
    await store(id, new Date(0), [page('a')])
    const { pages, tags, lookUp, answer } = await lookUpSlowly(id)
    await tags.revalidate(id, ['tag'], undefined)
    answer()
    expect(await lookUp).toMatchObject({ freshUntil: Infinity })
    expect(pages.peek(id, pageKey(['a']))).toBeUndefined()
    expect(await pages.find(id, pageKey(['a']), undefined)).toMatchObject({ freshUntil: 0 })
  })
})

test('a page that has expired is not shown again after a gentler revalidation of its tag', async () => {
  const { id } = await deploy(platform, ana, { files: { 'index.html': '' } })
  await store(id, new Date(0), [page('a')])
  const shownUntil = async () => (await platform.api.isrPages.find(id, pageKey(['a']), undefined))?.staleUntil
  await platform.api.isrTags.revalidate(id, ['tag'], undefined)
  expect(await shownUntil()).toBe(Infinity)
  for (const expireSeconds of [0, undefined]) {
    await platform.api.isrTags.revalidate(id, ['tag'], expireSeconds)
    expect(await shownUntil()).toBeLessThanOrEqual(platform.clock.now().getTime())
  }
})

test('an edge that shows a page which another has made anew meanwhile does not claim it', async () => {
  const { id } = await deploy(platform, ana, { files: { 'index.html': '' } })
  const key = pageKey(['a'])
  const claim = (begunAt: number | undefined) => platform.api.isrPages.claim(id, key, { key, begunAt })
  const first = await claim(undefined)
  await store(id, at(5), [page('a')])
  await first?.end('made')
  expect(await claim(undefined)).toBeUndefined()
  expect(await claim(at(4).getTime())).toBeUndefined()
  expect(await claim(at(5).getTime())).toBeDefined()
})

test('one claims a page until it has ended, and nobody for a while after a failure', async () => {
  const { id } = await deploy(platform, ana, { files: { 'index.html': '' } })
  const key = pageKey(['a'])
  const old = { key, begunAt: undefined }
  const claims = await Promise.all(Array.from({ length: 5 }, () => platform.api.isrPages.claim(id, key, old)))
  expect(claims.filter(Boolean)).toHaveLength(1)
  await claims.find(Boolean)?.end('made')
  const second = await platform.api.isrPages.claim(id, key, old)
  await second?.end('failed')
  expect(await platform.api.isrPages.claim(id, key, old)).toBeUndefined()
  await platform.api.db.execute(
    sql`update isr_claims set until = clock_timestamp() - interval '1 second' where deployment_id = ${id}`,
  )
  await discardPages(platform.api)
  expect(await platform.api.db.execute(sql`select from isr_claims where deployment_id = ${id}`)).toHaveLength(0)
})
