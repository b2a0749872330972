// engines: postgres, s3
import { randomBytes } from 'node:crypto'
import { openGuardedFetch } from '@platform/guarded-fetch/guarded-fetch'
import { openDatabase } from '@platform/runtime/database'
import { createLogger } from '@platform/runtime/logger'
import { newId } from '@platform/runtime/new-id'
import { openNotifications } from '@platform/runtime/notifications'
import { startCable } from '@platform/testkit/cable'
import { newObjectsUrl } from '@platform/testkit/objects'
import { holding } from '@platform/testkit/holding'
import { createServiceDatabase } from '@platform/testing/service-databases'
import { everyScope, startPlatform, type TestPlatform } from '@platform/testing/platform'
import { eq, inArray, sql } from 'drizzle-orm'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { deploy, type Deployed } from '../../../../test/deploy.ts'
import { askImage, imagePath, picture, startOrigin, storedImages } from '../../../../test/images.ts'
import { newOwner, type Owner } from '../../../../test/scenario.ts'
import { deployments } from '../../deploy/deployments/table.ts'
import { setMember } from '../../tenancy/organizations/members.ts'
import { setQuota } from '../../tenancy/products/quotas.ts'
import { collectGarbage } from '../../storage/objects/maintenance/collect-garbage.ts'
import { verifyStorage } from '../../storage/objects/maintenance/verify-storage.ts'
import { blobs } from '../../storage/objects/table.ts'
import { openImageEpochs } from './epochs.ts'
import { keepImageCaches } from './keep-image-caches.ts'
import { imageCaches, imagePurges, imageTotals, imageVariants } from './table.ts'

let origin: Awaited<ReturnType<typeof startOrigin>>
/** Two processes that share one database and one store. */
let platform: TestPlatform
let other: TestPlatform
let objects: { url: string; remove(): Promise<void> }
beforeAll(async () => {
  origin = await startOrigin()
  objects = await newObjectsUrl()
  const api = (await createServiceDatabase('api')).url
  const env = { MASTER_KEYS: `test:${randomBytes(32).toString('base64')}` }
  const open = async () =>
    startPlatform({
      databases: { api, idp: (await createServiceDatabase('idp')).url },
      objectsUrl: objects.url,
      guardedFetch: openGuardedFetch({ allow: ['127.0.0.1/32'] }),
      env,
    })
  platform = await open()
  other = await open()
})
afterAll(async () => {
  await other.close()
  await platform.close()
  await objects.remove()
  origin.close()
})

/** An organization with a deployment that also allows the origin's images. */
async function newSite(files: Record<string, { content: Buffer; contentType: string }> = {}) {
  const owner = await newOwner(platform)
  const site = await deploy(platform, owner, {
    files,
    output: {
      kind: 'build-output',
      routes: [{ src: '^/origin/(.*)$', dest: `${origin.url}/$1` }, { handle: 'filesystem' }],
    },
  })
  const cache = `/deployments/${site.id}/image-cache`
  return {
    owner,
    site,
    ask: (source: string, query = 'width=16') => askImage(platform, site, imagePath(source, query)),
    inspect: (source?: string) => platform.call(owner.token, `GET ${cache}${queryOf(source)}`),
    purge: (source?: string) => platform.call(owner.token, `DELETE ${cache}${queryOf(source)}`),
    totalBytes: async () => (await totalOf(owner))?.bytes ?? 0,
  }
}
const queryOf = (source: string | undefined) => (source === undefined ? '' : `?source=${encodeURIComponent(source)}`)
const totalOf = async ({ organizationId }: Pick<Owner, 'organizationId'>) =>
  (await platform.api.db.select().from(imageTotals).where(eq(imageTotals.organizationId, organizationId)))[0]
const jpeg = async (seed: number) => ({ content: await picture(400, 200, 'jpeg', seed), contentType: 'image/jpeg' })
/** Requests the same hostname from the other process. */
const askOther = ({ host }: Deployed, source: string, query = 'width=16') =>
  askImage(other, { host: host.replace(platform.api.appsUrl.host, other.api.appsUrl.host) }, imagePath(source, query))

describe('the image cache of a deployment', () => {
  test('is inspected and purged, as a whole and by source', async () => {
    const files = { 'a.jpg': await jpeg(1), 'b.jpg': await jpeg(2) }
    const neighbour = await newSite(files)
    await Promise.all(['/a.jpg', '/b.jpg'].map((source) => neighbour.ask(source)))
    const { owner, site, ask, inspect, purge } = await newSite(files)
    const empty = await inspect()
    expect([empty.status, empty.body]).toEqual([
      200,
      {
        enabled: true,
        deploymentTag: `images:${site.id}`,
        sourceTag: null,
        policy: { organizationBytesMax: 268_435_456, minimumCacheSeconds: 60, eviction: 'least-recently-used' },
        totalBytes: 0,
        entries: [],
      },
    ])
    const small = await ask('/a.jpg')
    const large = await Promise.all([ask('/b.jpg', 'width=256'), ask('/b.jpg?v=1', 'width=384')])
    const bytes = large.reduce((sum, { body }) => sum + body.length, 0)
    const { body } = await inspect()
    expect(body).toMatchObject({
      totalBytes: bytes + small.body.length,
      entries: [
        { source: '/b.jpg', variants: 2, bytes },
        { source: '/a.jpg', variants: 1, bytes: small.body.length },
      ],
    })
    const quotas = (await platform.call(owner.token, `GET /organizations/${owner.organizationId}/quotas`)).body as {
      items: object[]
    }
    expect(quotas.items).toContainEqual({
      name: 'image_cache_bytes',
      limit: 268_435_456,
      used: bytes + small.body.length,
      windowEnd: null,
    })
    // Either as the page requests it or as it is stored.
    for (const source of ['/b.jpg?v=1', '/x/../b.jpg'])
      expect((await inspect(source)).body).toMatchObject({ totalBytes: bytes, entries: [{ source: '/b.jpg' }] })
    const { sourceTag } = (await inspect('/b.jpg')).body as { sourceTag: string }
    const purged = await purge('/b.jpg')
    expect([purged.status, purged.body]).toEqual([200, { purged: true, tag: sourceTag }])
    expect((await inspect()).body).toMatchObject({ totalBytes: small.body.length, entries: [{ source: '/a.jpg' }] })
    expect((await ask('/a.jpg')).headers['x-cache']).toBe('HIT')
    expect((await ask('/b.jpg', 'width=256')).headers['x-cache']).toBe('MISS')
    expect((await purge()).body).toEqual({ purged: true, tag: `images:${site.id}` })
    expect((await inspect()).body).toMatchObject({ totalBytes: 0, entries: [] })
    expect((await totalOf(owner))?.bytes).toBe(0)
    expect((await ask('/a.jpg')).headers['x-cache']).toBe('MISS')
    // Purged by a different spelling of the requested source.
    await purge('/a.jpg?v=2')
    expect((await ask('/a.jpg')).headers['x-cache']).toBe('MISS')
    // Purges here leave the same sources of another deployment alone.
    expect(await storedImages(platform, neighbour.site.id)).toHaveLength(2)
  })

  test('is a MEMBER’s to inspect and to purge; a source that can be none is a 400', async () => {
    const { owner, site, inspect, purge } = await newSite()
    const mia = await platform.person()
    await setMember(platform.api, owner.organizationId, mia.userId, 'MEMBER')
    const token = await mia.token(everyScope)
    for (const method of ['GET', 'DELETE'])
      expect((await platform.call(token, `${method} /deployments/${site.id}/image-cache`)).status).toBe(200)
    for (const source of ['', 'x', '//a.example', '/_next/image', 'ftp://a.example/x'])
      for (const ask of [inspect, purge]) expect((await ask(source)).status).toBe(400)
    for (const source of [`/${'x'.repeat(2_048)}`, `/${'ü'.repeat(1_024)}`])
      for (const ask of [inspect, purge]) expect((await ask(source)).status).toBe(422)
    expect((await purge(`/${'x'.repeat(2_047)}`)).status).toBe(200)
    expect((await purge('https://a.example/x.png')).status).toBe(200)
  })

  test('shows the thousand sources that take most', async () => {
    const { owner, site, inspect } = await newSite()
    const time = platform.api.now()
    const ids = Array.from({ length: 1_005 }, () => newId())
    const content = Buffer.from('x')
    await platform.api.db.insert(imageCaches).values({ deploymentId: site.id, epoch: 0 })
    await platform.api.db
      .insert(blobs)
      .values(ids.map((id) => ({ id, state: 'live' as const, length: 1, crc32: 0, content, createdAt: time })))
    await platform.api.db.insert(imageVariants).values(
      ids.map((blobId, n) => ({
        deploymentId: site.id,
        key: randomBytes(32),
        organizationId: owner.organizationId,
        source: `/${n}.jpg`,
        blobId,
        bytes: n + 1,
        contentType: 'image/png',
        lastUsedAt: time,
      })),
    )
    const { entries, totalBytes } = (await inspect()).body as { entries: { bytes: number }[]; totalBytes: number }
    expect([entries.length, entries[0]?.bytes, entries.at(-1)?.bytes]).toEqual([1_000, 1_005, 6])
    expect(totalBytes).toBe((1_005 * 1_006) / 2)
  })
})

describe('a purge', () => {
  test('while an image is being made: it is sent to who waits, and not kept', async () => {
    const { site, ask, purge } = await newSite()
    for (const source of ['/origin/slow.jpg', undefined]) {
      const held = origin.hold('/slow.jpg', await picture(100, 100, 'jpeg', 1))
      const under = ask('/origin/slow.jpg')
      await held.arrived
      expect((await purge(source)).status).toBe(200)
      // Requests after the purge do not wait for work begun before it.
      origin.show('/slow.jpg', await picture(100, 100, 'jpeg', 2))
      const after = await ask('/origin/slow.jpg')
      held.release()
      const before = await under
      expect([before.status, before.headers['x-cache'], after.headers['x-cache']]).toEqual([200, 'MISS', 'MISS'])
      expect(before.body.equals(after.body)).toBe(false)
      const kept = await ask('/origin/slow.jpg')
      expect([kept.headers['x-cache'], kept.body.equals(after.body)]).toEqual(['HIT', true])
      expect(await storedImages(platform, site.id)).toHaveLength(1)
      await purge()
    }
  })

  test.each(['store', 'purge'])(
    'and storing at once, %s first: nothing from before the purge is left',
    async (first) => {
      for (const source of ['/a.jpg', undefined]) {
        const { site, ask, purge } = await newSite({ 'a.jpg': await jpeg(3) })
        await ask('/a.jpg', 'width=32')
        const storing = async () => (await ask('/a.jpg')).status
        const purging = async () => (await purge(source)).status
        const outcomes = await holding(
          platform.databaseUrl,
          (sql) => sql`select 1 from image_caches where deployment_id = ${site.id} for update`,
          first === 'store' ? [storing, purging] : [purging, storing],
        )
        expect(outcomes).toEqual([200, 200])
        expect(await storedImages(platform, site.id)).toEqual([])
        expect((await ask('/a.jpg')).headers['x-cache']).toBe('MISS')
      }
    },
  )

  test('is heard by another edge, which has the image from the store before', async () => {
    const { site, ask, purge } = await newSite({ 'a.jpg': await jpeg(4) })
    const made = await ask('/a.jpg')
    const there = await askOther(site, '/a.jpg')
    expect([there.headers['x-cache'], there.body.equals(made.body)]).toEqual(['HIT', true])
    for (const source of ['/a.jpg', undefined]) {
      await purge(source)
      await expect.poll(async () => (await askOther(site, '/a.jpg')).headers['x-cache'], { interval: 5 }).toBe('MISS')
      expect((await askOther(site, '/a.jpg')).headers['x-cache']).toBe('HIT')
    }
  })

  test('by another process ends what this one makes', async () => {
    const { site, ask } = await newSite()
    const held = origin.hold('/elsewhere.jpg', await picture(100, 100, 'jpeg', 5))
    const under = ask('/origin/elsewhere.jpg')
    await held.arrived
    await other.api.db.transaction(async (tx) => {
      await tx.insert(imageCaches).values({ deploymentId: site.id, epoch: 1 })
    })
    held.release()
    expect((await under).status).toBe(200)
    expect(await storedImages(platform, site.id)).toEqual([])
  })

  test('an edge finds out about a purge within 5 s where it hears no notifications', async () => {
    const { site, purge } = await newSite()
    const listening = await startCable(new URL(platform.databaseUrl))
    const { db, close } = openDatabase(platform.databaseUrl, { name: 'epochs', max: 2, prepare: true })
    const notifications = openNotifications(listening.url, createLogger('test', 'silent'))
    const purged: string[] = []
    let elapsedMs = 0
    const epochs = openImageEpochs({ db, notifications, monotonicMs: () => elapsedMs }, (id) => purged.push(id))
    onTestFinished(async () => {
      listening.wake()
      await notifications.close()
      await close()
      listening.close()
    })
    const find = () => epochs.find(site.id, '/a.jpg')
    // Hearing of a purge proves that it listens.
    await expect
      .poll(async () => {
        await purge('/b.jpg')
        return purged
      })
      .toContain(site.id)
    const heard = purged.length
    await purge('/a.jpg')
    await expect.poll(() => purged.length).toBeGreaterThan(heard)
    // Notifications arrive in the order of the purges, and another deployment's is the last of them.
    const { site: last, purge: purgeLast } = await newSite()
    await purgeLast()
    await expect.poll(() => purged).toContain(last.id)
    expect(await find()).toEqual({ deployment: 0, source: 1 })
    listening.cut()
    await purge()
    expect(await find()).toEqual({ deployment: 0, source: 1 })
    elapsedMs += 4_999
    expect(await find()).toEqual({ deployment: 0, source: 1 })
    elapsedMs += 1
    await expect.poll(find).toEqual({ deployment: 1, source: 1 })
    // Once purges are heard again, everything is looked up again, whatever its age: no time passes here.
    await purge('/a.jpg')
    await listening.mend()
    await expect.poll(find).toEqual({ deployment: 1, source: 2 })
  })
})

test('an image too large for the memory is sent from the store each time', async () => {
  const { site, ask } = await newSite({
    'large.jpg': { content: await picture(1_200, 1_200), contentType: 'image/jpeg' },
  })
  const answers = [await ask('/large.jpg', 'format=png'), await ask('/large.jpg', 'format=png')]
  answers.push(await askOther(site, '/large.jpg', 'format=png'))
  const [made] = answers
  expect(made?.body.length).toBeGreaterThan(2_097_152)
  expect(answers.map(({ headers, body }) => [headers['x-cache'], body.equals(made!.body)])).toEqual([
    ['MISS', true],
    ['HIT', true],
    ['HIT', true],
  ])
})

test('an image that cannot be stored is sent all the same', async () => {
  const { site, ask } = await newSite({ 'unstored.jpg': await jpeg(11) })
  const { db } = platform.api
  await db.execute(
    sql`create function refuse_image() returns trigger language plpgsql as $$ begin raise 'no room'; end $$`,
  )
  await db.execute(
    sql`create trigger refuse_image before insert on image_variants for each row when (new.source = '/unstored.jpg') execute function refuse_image()`,
  )
  const first = await ask('/unstored.jpg')
  const there = await askOther(site, '/unstored.jpg')
  expect([first, there].map(({ status, headers }) => [status, headers['x-cache']])).toEqual([
    [200, 'MISS'],
    [200, 'MISS'],
  ])
  expect((await ask('/unstored.jpg')).headers['x-cache']).toBe('HIT')
  expect(await storedImages(platform, site.id)).toEqual([])
  await db.execute(sql`drop trigger refuse_image on image_variants`)
})

test('an image whose bytes are gone is made again', async () => {
  const { site, ask } = await newSite({ 'a.jpg': await jpeg(10) })
  const first = await ask('/a.jpg')
  const [row] = await storedImages(platform, site.id)
  await platform.api.db
    .update(blobs)
    .set({ content: null })
    .where(eq(blobs.id, row?.blobId ?? ''))
  const again = await askOther(site, '/a.jpg')
  expect([again.status, again.headers['x-cache'], again.body.equals(first.body)]).toEqual([200, 'MISS', true])
})

describe('the quota of an organization', () => {
  test('is kept: the least recently used images make room, with their bytes', async () => {
    const files = Object.fromEntries(
      await Promise.all(
        [1, 2, 3, 4].map(async (n): Promise<[string, Awaited<ReturnType<typeof jpeg>>]> => [`${n}.jpg`, await jpeg(n)]),
      ),
    )
    const { owner, site, ask, totalBytes } = await newSite(files)
    const png = 'width=384&format=png'
    // Too large for the row, so that the store has files of them.
    const sizes: number[] = []
    for (const n of [1, 2, 3]) sizes.push((await ask(`/${n}.jpg`, png)).body.length)
    expect(Math.min(...sizes)).toBeGreaterThan(16_384)
    const [second] = await storedImages(platform, site.id, '/2.jpg')
    // The first one is used again.
    platform.clock.advance(3_700_000)
    await ask('/1.jpg', png)
    await expect
      .poll(async () => (await storedImages(platform, site.id, '/1.jpg'))[0]?.lastUsedAt.getTime())
      .toBeGreaterThan(second?.lastUsedAt.getTime() ?? Infinity)
    await setQuota(platform.api, owner.organizationId, 'image_cache_bytes', Math.ceil((await totalBytes()) * 1.1))
    await ask('/4.jpg', png)
    const left = await storedImages(platform, site.id)
    expect(left.map(({ source }) => source).toSorted()).toEqual(['/1.jpg', '/3.jpg', '/4.jpg'])
    expect(await platform.api.db.$count(blobs, eq(blobs.id, second?.blobId ?? ''))).toBe(0)
    expect(await totalBytes()).toBe(left.reduce((sum, { bytes }) => sum + bytes, 0))
    // The other process has no copy in memory, so it generates the image again.
    expect((await askOther(site, '/2.jpg', png)).headers['x-cache']).toBe('MISS')
  })

  test('that is lowered is kept by the job; the images of retired deployments go, and all of their bytes', async () => {
    const { owner, site, ask, inspect, purge, totalBytes } = await newSite({ 'a.jpg': await jpeg(6) })
    for (const width of [16, 32, 64, 128]) await ask('/a.jpg', `width=${width}&format=png`)
    const ids = (await storedImages(platform, site.id)).map(({ blobId }) => blobId)
    await setQuota(platform.api, owner.organizationId, 'image_cache_bytes', (await totalBytes()) - 1)
    await keepImageCaches(platform.api)
    const left = await storedImages(platform, site.id)
    expect(left.length).toBeGreaterThan(0)
    expect(left.length).toBeLessThan(4)
    await purge('/b.jpg')
    await platform.api.db.update(deployments).set({ retiredAt: platform.api.now() }).where(eq(deployments.id, site.id))
    await keepImageCaches(platform.api)
    expect((await inspect()).body).toMatchObject({ enabled: false, totalBytes: 0, entries: [] })
    expect(await storedImages(platform, site.id)).toEqual([])
    for (const table of [imageCaches, imagePurges])
      expect(await platform.api.db.$count(table, eq(table.deploymentId, site.id))).toBe(0)
    await collectGarbage(platform.api)
    const rows = await platform.api.db.select().from(blobs).where(inArray(blobs.id, ids))
    expect(rows.map(({ state }) => state)).toEqual(rows.map(() => 'dead'))
    expect((await verifyStorage(platform.api)).unreferenced).toBe(0)
  })

  test('hundreds of different wishes leave the store as it was', async () => {
    const { owner, site, ask, totalBytes } = await newSite({ 'a.jpg': await jpeg(7) })
    const limit = 100_000
    await setQuota(platform.api, owner.organizationId, 'image_cache_bytes', limit)
    let made = 0
    let most = 0
    let blobsMost = 0
    const before = await platform.api.db.$count(blobs)
    for (let quality = 5; quality <= 100; quality += 5)
      for (const [width, height] of [
        [96, 96],
        [128, 96],
        [128, 128],
      ]) {
        const got = await ask('/a.jpg', `width=${width}&height=${height}&quality=${quality}&format=png`)
        expect(got.status).toBe(200)
        made += got.body.length
        most = Math.max(most, await totalBytes())
        blobsMost = Math.max(blobsMost, (await platform.api.db.$count(blobs)) - before)
      }
    expect(made).toBeGreaterThan(10 * limit)
    expect(most).toBeLessThanOrEqual(limit)
    const rows = await storedImages(platform, site.id)
    expect(blobsMost).toBeLessThan(60)
    expect((await platform.api.db.$count(blobs)) - before).toBe(rows.length)
  })

  test('purges are forgotten once nothing is left that they would keep out', async () => {
    const { site, ask, purge } = await newSite({ 'a.jpg': await jpeg(8), 'b.jpg': await jpeg(9) })
    await purge('/a.jpg')
    await purge('/b.jpg')
    await ask('/a.jpg')
    await keepImageCaches(platform.api)
    expect(await platform.api.db.$count(imagePurges, eq(imagePurges.deploymentId, site.id))).toBe(2)
    platform.clock.advance(86_500_000)
    await keepImageCaches(platform.api)
    platform.clock.advance(-86_500_000)
    const left = await platform.api.db.select().from(imagePurges).where(eq(imagePurges.deploymentId, site.id))
    expect(left.map(({ source }) => source)).toEqual(['/a.jpg'])
    expect((await ask('/a.jpg')).headers['x-cache']).toBe('HIT')
  })
})
