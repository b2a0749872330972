// engines: postgres, s3
import { createHash, randomBytes } from 'node:crypto'
import { readdir, rm, truncate } from 'node:fs/promises'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { CopyObjectCommand } from '@aws-sdk/client-s3'
import { holding } from '@platform/testkit/holding'
import { newObjectsUrl } from '@platform/testkit/objects'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { and, desc, eq, getTableColumns, isNotNull, sql } from 'drizzle-orm'
import { register } from 'prom-client'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { newS3User, statusOf } from '../../../../../test/s3.ts'
import { newOwner, type Owner, storeObject, unique } from '../../../../../test/scenario.ts'
import { setQuota } from '../../../tenancy/products/quotas.ts'
import { commitObject } from '../commit-object.ts'
import { collectGarbage } from './collect-garbage.ts'
import { mergeBlobs } from './merge-blobs.ts'
import { findObjectWithContent, openObject } from '../read-object.ts'
import { discardBlobs, type NewBlob, receiveBlobs } from '../receive-body.ts'
import { blobs, bucketCounts, objectBlobs, objects, storedBytes } from '../table.ts'
import { sumStoredBytes } from '../stored-bytes.ts'
import { discardTrash, purgeObject, trashObject } from '../trash.ts'
import { verifyStorage } from './verify-storage.ts'

let platform: TestPlatform
let ana: Owner
/** Always the folder driver, since these tests inspect the stored files. */
let objectsFolder: string
beforeAll(async () => {
  const { url } = await newObjectsUrl('folder')
  objectsFolder = fileURLToPath(url)
  platform = await startPlatform({ objectsUrl: url })
  ana = await newOwner(platform)
})
afterAll(async () => {
  await platform.close()
  await rm(objectsFolder, { recursive: true, force: true })
})

async function newBucket(): Promise<{ id: string; name: string; path: string }> {
  const name = `b-${unique()}`
  const made = await platform.call(ana.token, `POST /applications/${ana.applicationId}/storage/buckets`, { name })
  return { id: made.body.id as string, name, path: `/applications/${ana.applicationId}/storage/buckets/${name}` }
}
const large = () => randomBytes(40_000)
async function* chunksOf(bytes: Buffer) {
  yield bytes
}

/** The files of blobs, at any depth. */
const files = async (): Promise<string[]> =>
  (await readdir(objectsFolder, { recursive: true, withFileTypes: true })).flatMap((entry) =>
    entry.isFile() ? [entry.name] : [],
  )
/** The same after dead blobs have become old enough to be removed. */
async function filesAfterCollection(): Promise<string[]> {
  await collectGarbage(platform.api)
  platform.clock.advance(3_600_001)
  await collectGarbage(platform.api)
  platform.clock.advance(-3_600_001)
  return files()
}
async function read(bucketId: string, key: string): Promise<Buffer> {
  const row = await findObjectWithContent(platform.api, bucketId, key)
  if (!row) throw new Error(`There is no ${key}`)
  const content = openObject(platform.api, row.object, row.first)
  return Buffer.isBuffer(content) ? content : buffer(content)
}
const blobOf = async (objectId: string): Promise<string> =>
  (await platform.api.db.select().from(objectBlobs).where(eq(objectBlobs.objectId, objectId)))[0]?.blobId ?? ''

/** Stores an object of many pieces, as an upload in small steps does. */
async function storeScattered(bucketId: string, key: string, pieces: Buffer[]) {
  const received: NewBlob[] = []
  for (const piece of pieces)
    received.push(...(await receiveBlobs(platform.api, chunksOf(piece), { bytesMax: 1e6 }, () => {})).blobs)
  const whole = Buffer.concat(pieces)
  const etag = createHash('md5').update(whole).digest('hex')
  const facts = { key, contentType: 'text/plain', contentLength: whole.length, etag }
  return commitObject(platform.api, bucketId, { ...facts, blobs: received })
}

test('bytes go when nothing refers to them any more, an hour after that', async () => {
  const { id, path } = await newBucket()
  const object = await storeObject(platform, id, 'k', large())
  const blob = await blobOf(object.id)
  expect(await files()).toContain(blob)
  const environment = `/applications/${ana.applicationId}/environments/production`
  await platform.call(ana.token, `DELETE ${environment}/objects/${object.id}`)
  expect(await filesAfterCollection()).toContain(blob)
  await platform.call(ana.token, `DELETE ${path}/trash`)
  await collectGarbage(platform.api)
  expect(await files()).toContain(blob) // somebody may be reading it
  expect(await filesAfterCollection()).not.toContain(blob)
  expect(await platform.api.db.select().from(blobs).where(eq(blobs.id, blob))).toEqual([])
})

test('what a deleted bucket held goes with it (D36)', async () => {
  const { id, path } = await newBucket()
  const object = await storeObject(platform, id, 'k', large())
  const blob = await blobOf(object.id)
  expect((await platform.call(ana.token, `DELETE ${path}?force=true`)).status).toBe(204)
  expect(await filesAfterCollection()).not.toContain(blob)
  expect(await platform.api.db.select().from(objects).where(eq(objects.bucketId, id))).toEqual([])
  expect(await platform.api.db.select().from(bucketCounts).where(eq(bucketCounts.bucketId, id))).toEqual([])
})

test('a body that never became anything goes after a day, and at once where it was refused', async () => {
  const { blobs: kept } = await receiveBlobs(platform.api, chunksOf(large()), { bytesMax: 1e6 }, () => {})
  const [forgotten = { id: '' }] = kept
  expect(await filesAfterCollection()).toContain(forgotten.id)
  platform.clock.advance(86_400_000)
  expect(await filesAfterCollection()).not.toContain(forgotten.id)
  platform.clock.advance(-86_400_000)
  const { blobs: refused } = await receiveBlobs(platform.api, chunksOf(large()), { bytesMax: 1e6 }, () => {})
  await discardBlobs(platform.api, refused)
  expect(await files()).not.toContain(refused[0]?.id)
})

describe('a copy whose source is collected while it is made', () => {
  async function newCopy() {
    const s3 = await newS3User({ url: `${platform.apiUrl}/s3`, platform }, undefined, ana)
    const { id, name } = await newBucket()
    const content = large()
    const source = await storeObject(platform, id, 'source', content)
    const replaced = await storeObject(platform, id, 'copy', 'replaced')
    const command = new CopyObjectCommand({ Bucket: name, Key: 'copy', CopySource: `${name}/source` })
    return {
      bucketId: id,
      blobId: await blobOf(source.id),
      content,
      replaced,
      copy: () => statusOf(s3.client.send(command)),
      async collectSource() {
        const { status } = await platform.call(
          ana.token,
          `DELETE /applications/${ana.applicationId}/environments/production/objects/${source.id}`,
        )
        expect(status).toBe(204)
        await purgeObject(platform.api, id, source.id)
        await collectGarbage(platform.api)
      },
    }
  }

  test('keeps its bytes where it has found them: the collector waits for it', async () => {
    const { bucketId, blobId, content, replaced, copy, collectSource } = await newCopy()
    const [status] = await holding(
      platform.databaseUrl,
      (held) => held`select from objects where id = ${replaced.id} for update`,
      [copy, collectSource],
    )
    expect(status).toBe(200)
    expect(await filesAfterCollection()).toContain(blobId)
    expect((await read(bucketId, 'copy')).equals(content)).toBe(true)
  })

  test('is refused where they are dead by the time it looks, and what was to be replaced stays', async () => {
    const { bucketId, blobId, copy, collectSource } = await newCopy()
    const [status] = await holding(
      platform.databaseUrl,
      async (held) => {
        await held`select from blobs where id = ${blobId} for update`
        await held`update blobs set state = 'dead', died_at = ${platform.clock.now()} where id = ${blobId}`
      },
      [copy],
    )
    expect(status).toBe(404)
    expect((await read(bucketId, 'copy')).toString()).toBe('replaced')
    await collectSource()
    expect(await filesAfterCollection()).not.toContain(blobId)
  })
})

test('the pieces of a scattered object are put together, and nothing that shows is changed', async () => {
  const { id } = await newBucket()
  const pieces = Array.from({ length: 100 }, (_, n) => randomBytes(n % 3 === 0 ? 20_000 : 100))
  const before = await storeScattered(id, 'k', pieces)
  const few = await storeScattered(id, 'few', pieces.slice(0, 10))
  expect(before.blobCount).toBe(100)
  await mergeBlobs(platform.api)
  const { object: after } = (await findObjectWithContent(platform.api, id, 'k')) ?? {}
  expect(after).toEqual({ ...before, blobCount: 1 })
  expect((await read(id, 'k')).equals(Buffer.concat(pieces))).toBe(true)
  expect((await findObjectWithContent(platform.api, id, 'few'))?.object).toEqual(few)
  await filesAfterCollection()
  expect((await read(id, 'k')).equals(Buffer.concat(pieces))).toBe(true)
  expect((await verifyStorage(platform.api)).damaged).toEqual([])
})

test('an object that is purged between its being found and read is not found, rather than empty', async () => {
  const { id } = await newBucket()
  const object = await storeScattered(id, 'k', [randomBytes(20_000), randomBytes(20_000)])
  await trashObject(platform.api, id, object.id)
  await purgeObject(platform.api, id, object.id)
  const content = openObject(platform.api, object, null)
  await expect(buffer(content as AsyncIterable<Buffer>)).rejects.toMatchObject({ status: 404 })
})

test('pieces are put together beside a purge of what they belong to', async () => {
  const { id } = await newBucket()
  for (let round = 0; round < 5; round++) {
    const pieces = Array.from({ length: 70 }, () => randomBytes(20_000))
    const object = await storeScattered(id, 'k', pieces)
    await trashObject(platform.api, id, object.id)
    await Promise.all([mergeBlobs(platform.api), purgeObject(platform.api, id, object.id)])
  }
  expect((await verifyStorage(platform.api)).damaged).toEqual([])
})

test('verify names what is damaged and repairs counts, and removes nothing', async () => {
  const { id, path } = await newBucket()
  const [sound, cut, gone, small] = await Promise.all(
    ['sound', 'cut', 'gone', 'small'].map((key) => storeObject(platform, id, key, key === 'small' ? 'x' : large())),
  )
  expect(sound && cut && gone && small).toBeDefined()
  const pathOf = (blob: string) => join(objectsFolder, blob.slice(-2), blob.slice(-4, -2), blob)
  await truncate(pathOf(await blobOf(cut?.id ?? '')), 39_999)
  await rm(pathOf(await blobOf(gone?.id ?? '')))
  await platform.api.db
    .update(blobs)
    .set({ content: Buffer.from('y') })
    .where(eq(blobs.id, await blobOf(small?.id ?? '')))
  await platform.api.db
    .update(bucketCounts)
    .set({ objects: sql`${bucketCounts.objects} + 5` })
    .where(eq(bucketCounts.bucketId, id))
  const report = await verifyStorage(platform.api, { repairs: true })
  expect(report.damaged.map(({ key, fault }) => `${key} is ${fault}`).toSorted()).toEqual([
    'cut is corrupt',
    'gone is missing',
    'small is corrupt',
  ])
  expect([report.damagedCount, report.miscounted]).toEqual([3, [id]])
  expect((await platform.call(ana.token, `GET ${path}/objects`)).body.total).toBe(4)
  const again = await verifyStorage(platform.api)
  expect([again.damagedCount, again.miscounted]).toEqual([3, []])
})

test('bytes that a refused commit came with are not kept', async () => {
  const { id } = await newBucket()
  await storeObject(platform, id, 'k', 'first')
  for (const bytes of [Buffer.from('small'), large()]) {
    const { blobs: received } = await receiveBlobs(platform.api, chunksOf(bytes), { bytesMax: 1e6 }, () => {})
    const facts = { key: 'k', contentType: 'text/plain', contentLength: bytes.length, etag: 'e' }
    const refused = { ...facts, blobs: received, condition: { ifNoneMatch: true } } as const
    await expect(commitObject(platform.api, id, refused)).rejects.toThrow('condition')
    await discardBlobs(platform.api, received)
    const [blob = { id: '' }] = received
    expect(await platform.api.db.select().from(blobs).where(eq(blobs.id, blob.id))).toEqual([])
  }
})

test('objects that are committed at once are counted, whatever becomes of the others among them', async () => {
  const [one, two] = [await newBucket(), await newBucket()]
  const commit = (bucketId: string, key: string) => storeObject(platform, bucketId, key, key)
  const [outcomes] = await Promise.all([
    Promise.allSettled(Array.from({ length: 20 }, (_, n) => commit('00000000-0000-4000-8000-000000000000', `${n}`))),
    ...Array.from({ length: 60 }, (_, n) => commit(one.id, `k${n % 40}`)),
    ...Array.from({ length: 40 }, (_, n) => commit(two.id, n === 0 ? '\u{1f600}' : `k${n}`)),
  ])
  expect(outcomes.map(({ status }) => status)).toEqual(Array.from({ length: 20 }, () => 'rejected'))
  const counts = async (bucketId: string) =>
    platform.api.db
      .select({
        objects: sql<number>`sum(objects)`.mapWith(Number),
        trashed: sql<number>`sum(trashed)`.mapWith(Number),
      })
      .from(bucketCounts)
      .where(eq(bucketCounts.bucketId, bucketId))
  expect(await counts(one.id)).toEqual([{ objects: 40, trashed: 20 }])
  expect(await counts(two.id)).toEqual([{ objects: 40, trashed: 0 }])
  expect((await verifyStorage(platform.api)).miscounted).toEqual([])
  expect((await read(two.id, '\u{1f600}')).toString()).toBe('\u{1f600}')
})

test('what has been in the trash for the days that it is kept is gone for good, and nothing younger', async () => {
  const { id } = await newBucket()
  const trash = async () => {
    const isTrashed = and(eq(objects.bucketId, id), isNotNull(objects.deletedAt))
    const rows = await platform.api.db.select().from(objects).where(isTrashed).orderBy(desc(objects.deletedAt))
    return rows.map(({ key }) => key)
  }
  await trashObject(platform.api, id, (await storeObject(platform, id, 'old', 'old')).id)
  platform.clock.advance(86_400_000)
  await trashObject(platform.api, id, (await storeObject(platform, id, 'young', 'young')).id)
  await storeObject(platform, id, 'live', 'live')
  platform.clock.advance(29 * 86_400_000 + 60_000)
  await discardTrash(platform.api, 0)
  expect(await trash()).toEqual(['young', 'old'])
  await discardTrash(platform.api, 30)
  expect(await trash()).toEqual(['young'])
  expect((await read(id, 'live')).toString()).toBe('live')
  expect((await verifyStorage(platform.api)).miscounted).not.toContain(id)
  platform.clock.advance(-30 * 86_400_000 - 60_000)
})

test('bytes are summed by organization, live and in the trash, and compared with its quota', async () => {
  const owner = await newOwner(platform)
  const name = `b-${unique()}`
  const buckets = `/applications/${owner.applicationId}/storage/buckets`
  const bucketId = (await platform.call(owner.token, `POST ${buckets}`, { name })).body.id as string
  await storeObject(platform, bucketId, 'live', 'x'.repeat(700))
  await trashObject(platform.api, bucketId, (await storeObject(platform, bucketId, 'trash', 'x'.repeat(300))).id)

  const stored = async () => {
    await sumStoredBytes(platform.api)
    const [row] = await platform.api.db
      .select({ ...getTableColumns(storedBytes), version: sql<string>`xmin` })
      .from(storedBytes)
      .where(eq(storedBytes.organizationId, owner.organizationId))
    return row
  }
  const first = await stored()
  expect(first).toMatchObject({ bytes: 700, trashedBytes: 300, isFull: false })
  expect(await stored()).toEqual(first) // nothing changed, and no row is written again
  const shown = (await register.metrics())
    .split('\n')
    .filter((line) => line.startsWith('organization_stored_bytes') && line.includes(owner.organizationId))
    .map((line) => line.replace(owner.organizationId, 'id'))
  expect(shown).toEqual([
    'organization_stored_bytes{organization="id",state="live"} 700',
    'organization_stored_bytes{organization="id",state="trash"} 300',
    'organization_stored_bytes{organization="id",state="uploading"} 0',
  ])
  const { body } = await platform.call(owner.token, `GET /organizations/${owner.organizationId}/quotas`)
  const quota = (body.items as { name: string }[]).find((each) => each.name === 'stored_bytes')
  expect(quota).toEqual({ name: 'stored_bytes', limit: 5 * 2 ** 30, used: 1_000, windowEnd: null })

  await setQuota(platform.api, owner.organizationId, 'stored_bytes', 1_000)
  expect(await stored()).toMatchObject({ isFull: true })
  await setQuota(platform.api, owner.organizationId, 'stored_bytes', 1_001)
  expect(await stored()).toMatchObject({ isFull: false })
  await platform.call(owner.token, `DELETE ${buckets}/${name}?force=true`)
  await collectGarbage(platform.api)
  expect(await stored()).toMatchObject({ bytes: 0, trashedBytes: 0 })
})
