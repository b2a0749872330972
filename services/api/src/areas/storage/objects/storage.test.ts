// engines: postgres, s3
import { createHash } from 'node:crypto'
import { buffer } from 'node:stream/consumers'
import { PutObjectCommand } from '@aws-sdk/client-s3'
import { holding } from '@platform/testkit/holding'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { sql } from 'drizzle-orm'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { newS3User, statusOf } from '../../../../test/s3.ts'
import { newOwner, type Owner, storeObject, unique } from '../../../../test/scenario.ts'
import { publicUrlOf } from './access-url.ts'
import type { NewObject } from './commit-object.ts'
import { findObjectWithContent, openObject } from './read-object.ts'
import { trashObjects } from './trash.ts'

let platform: TestPlatform
let ana: Owner
beforeAll(async () => {
  platform = await startPlatform()
  ana = await newOwner(platform)
})
afterAll(() => platform.close())

const prefix = (environment = 'production', owner = ana) =>
  `/applications/${owner.applicationId}/environments/${environment}`
const call = (on: string, body?: unknown, token = ana.token) => platform.call(token, on, body)

async function newBucket(more: object = {}): Promise<{ id: string; name: string; path: string }> {
  const name = `b-${unique()}`
  const made = await call(`POST ${prefix()}/storage/buckets`, { name, ...more })
  expect(made.status).toBe(201)
  return { id: made.body.id as string, name, path: `${prefix()}/buckets/${name}` }
}

const put = (bucketId: string, key: string, content: Buffer | string = key, condition?: NewObject['condition']) =>
  storeObject(platform, bucketId, key, content, condition)

async function read(
  bucketId: string,
  key: string,
  range?: { start: number; end: number },
): Promise<Buffer | undefined> {
  const row = await findObjectWithContent(platform.api, bucketId, key)
  if (!row) return undefined
  const content = openObject(platform.api, row.object, row.first, range && { range })
  return Buffer.isBuffer(content) ? content : buffer(content)
}
const keysOf = (answer: { body: { items: { key: string }[] } }) => answer.body.items.map(({ key }) => key)

describe('buckets', () => {
  test('are private unless said otherwise, and have a hostname of their own (A §2, wire.md)', async () => {
    const name = `media-${unique()}`
    const made = await call(`POST ${prefix()}/storage/buckets`, { name })
    expect(made).toMatchObject({
      status: 201,
      body: { name, slug: name, visibility: 'private', environment: 'production', applicationId: ana.applicationId },
    })
    expect(made.body.cdnHostname).toBe(`${name}.${platform.api.objectsDomain}`)
    const preview = await call(`POST ${prefix('preview')}/storage/buckets`, { name, visibility: 'public' })
    expect(preview).toMatchObject({ status: 201, body: { name, visibility: 'public', environment: 'preview' } })
    expect(preview.body.slug).not.toBe(name) // slugs are globally unique
  })

  test('answer at every path that names them, and by UUID with a warning (D35, D39)', async () => {
    const { id, name } = await newBucket()
    const flat = `/applications/${ana.applicationId}/storage/buckets`
    const [first, ...rest] = await Promise.all(
      [
        `${prefix()}/buckets/${name}`,
        `${prefix()}/storage/buckets/${name}`,
        `${flat}/${name}`,
        `${flat}/${name}?environment=production`,
      ].map((path) => call(`GET ${path}`)),
    )
    expect(first?.status).toBe(200)
    expect(first?.headers).not.toHaveProperty('deprecation')
    for (const other of rest) expect(other.body).toEqual(first?.body)
    expect((await call(`GET ${flat}/${name}?environment=preview`)).status).toBe(404)
    expect((await call(`GET ${flat}/${name}?environment=nowhere`)).body).toEqual({ error: 'Environment not found' })
    expect(await call(`GET ${flat}/${name}?environment=production&environment=preview`)).toMatchObject({
      status: 422,
      body: { on: 'query', property: '/environment', found: ['production', 'preview'] }, // D116
    })
    const byId = await call(`GET ${prefix()}/buckets/${id}`)
    expect(byId.body).toEqual(first?.body)
    expect(byId.headers.deprecation).toMatch(/^@\d+$/)
    expect((await call(`GET ${prefix()}/buckets/${first?.body.slug}x`)).status).toBe(404)
  })

  test('named by UUID need no environment, on the flat path (D35)', async () => {
    const { body: preview } = await call(`POST ${prefix('preview')}/buckets`, { name: `b-${unique()}` })
    const flat = `/applications/${ana.applicationId}/storage/buckets/${preview.id}`
    expect(await call(`GET ${flat}`)).toMatchObject({ status: 200, body: { id: preview.id, environment: 'preview' } })
    const object = await put(preview.id, 'k')
    expect(await call(`GET ${flat}/objects/${object.id}`)).toMatchObject({ status: 200, body: { key: 'k' } })
    expect((await call(`GET ${flat}?environment=production`)).status).toBe(404)
    expect((await call(`GET ${prefix()}/buckets/${preview.id}`)).status).toBe(404)
    const foreign = `/applications/${(await newOwner(platform)).applicationId}/storage/buckets/${preview.id}`
    expect((await call(`GET ${foreign}`)).status).toBe(404)
  })

  test('go to the environment of the body where neither path nor query names one (D35)', async () => {
    const flat = `/applications/${ana.applicationId}/storage/buckets`
    const { body: other } = await call(`POST ${prefix('preview')}/buckets`, { name: `b-${unique()}` })
    const create = (query: string, body: object) => call(`POST ${flat}${query}`, { name: `b-${unique()}`, ...body })
    for (const body of [
      { environment: 'preview' },
      { environmentId: 'preview' },
      { environment: other.environmentId },
      { environmentId: other.environmentId.toUpperCase() },
      { environment: 'preview', environmentId: other.environmentId },
    ])
      expect(await create('', body)).toMatchObject({ status: 201, body: { environment: 'preview' } })
    expect(await create('', {})).toMatchObject({ status: 201, body: { environment: 'production' } })
    expect(await create('?environment=preview', {})).toMatchObject({ status: 201, body: { environment: 'preview' } })
    for (const [query, body] of [
      ['?environment=production', { environment: 'preview' }],
      ['?environment=preview', { environmentId: 'production' }],
      ['', { environment: 'production', environmentId: 'preview' }],
    ] as const)
      expect((await create(query, body)).status).toBe(400)
    expect((await create('', { environment: 'nowhere' })).body).toEqual({ error: 'Environment not found' })
  })

  test('have names that are new in their environment, and slugs that are new everywhere (D29, D75)', async () => {
    const { name } = await newBucket()
    expect((await call(`POST ${prefix()}/storage/buckets`, { name })).status).toBe(409)
    const slug = `s-${unique()}`
    expect((await newBucket({ slug })).name).not.toBe(slug)
    expect((await call(`POST ${prefix()}/storage/buckets`, { name: `b-${unique()}`, slug })).status).toBe(409)
    const racers = await Promise.all(
      Array.from({ length: 10 }, () => call(`POST ${prefix()}/storage/buckets`, { name: 'one-only' })),
    )
    expect(racers.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([201, ...Array<number>(9).fill(409)])
  })

  test.each(['ab', '-ab', 'ab-', 'Abc', 'a.b', 'a_b', 'x'.repeat(64), '0199a3f0-5b7c-7cc0-9d3f-2f6f5c1b7a10'])(
    'cannot be called %s (D34, D39)',
    async (name) => {
      expect(await call(`POST ${prefix()}/storage/buckets`, { name })).toMatchObject({
        status: 422,
        body: { property: '/name' },
      })
    },
  )

  test('refuse a body that names another environment than the path (D35)', async () => {
    const answer = await call(`POST ${prefix()}/storage/buckets`, { name: `b-${unique()}`, environment: 'preview' })
    expect(answer.status).toBe(400)
  })

  test('go with their trash, but not while they hold live objects, unless forced (A §3, D36)', async () => {
    const { id, path, name } = await newBucket()
    const object = await put(id, 'a')
    expect(await call(`DELETE ${path}`)).toMatchObject({ status: 409, body: { error: 'Bucket still holds objects' } })
    expect((await call(`GET ${path}`)).status).toBe(200)
    expect((await call(`DELETE ${prefix()}/objects/${object.id}`)).status).toBe(204)
    expect((await call(`DELETE ${path}`)).status).toBe(204)
    expect((await call(`GET ${path}`)).status).toBe(404)
    expect((await call(`GET ${prefix()}/trash/${object.id}`)).status).toBe(404)
    await expect(put(id, 'b')).rejects.toThrow('Bucket not found')
    expect((await call(`POST ${prefix()}/storage/buckets`, { name })).status).toBe(201)

    const other = await newBucket()
    await put(other.id, 'a')
    expect((await call(`DELETE ${other.path}?force=true`)).status).toBe(204)
    expect((await call(`GET ${other.path}`)).status).toBe(404)
  })

  // The longest object that is committed in a group, and the shortest one that is committed by itself.
  test.each([16_384, 16_385])(
    'are never deleted under an object of %i bytes that was acknowledged: of a write and a deletion at once one fails',
    async (length) => {
      const s3 = await newS3User({ url: `${platform.apiUrl}/s3`, platform }, undefined, ana)
      const race = async (...order: ('write' | 'deletion')[]) => {
        const { id, name, path } = await newBucket()
        const racers = {
          write: () =>
            statusOf(s3.client.send(new PutObjectCommand({ Bucket: name, Key: 'k', Body: 'x'.repeat(length) }))),
          deletion: async () => (await call(`DELETE ${path}`)).status,
        }
        const statuses = await holding(
          platform.databaseUrl,
          (held) => held`select from buckets where id = ${id} for update`,
          order.map((who) => racers[who]),
        )
        return Object.fromEntries(order.map((who, n) => [who, statuses[n]]))
      }
      expect(await race('deletion', 'write')).toEqual({ deletion: 204, write: 404 })
      expect(await race('write', 'deletion')).toEqual({ write: 200, deletion: 409 })
    },
  )
})

describe('objects', () => {
  test.each([0, 1, 16_384, 16_385, 300_000])(
    'of %i bytes read back as they were written, whole and by range',
    async (length) => {
      const { id } = await newBucket()
      const content = Buffer.from(Array.from({ length }, (_, n) => (n * 31) % 251))
      const object = await put(id, 'k', content)
      expect(object).toMatchObject({ contentLength: length, etag: createHash('md5').update(content).digest('hex') })
      expect((await read(id, 'k'))?.equals(content)).toBe(true)
      if (length < 2) return
      const range = { start: 1, end: length - 2 }
      expect((await read(id, 'k', range))?.equals(content.subarray(1, length - 1))).toBe(true)
    },
  )

  test('are shown with their checksums, and their old versions lie in the trash (D37, wire.md)', async () => {
    const { id, path } = await newBucket()
    const first = await put(id, 'k', 'one')
    const second = await put(id, 'k', 'two')
    const sha256 = createHash('sha256').update('two').digest('hex')
    const shown = await call(`GET ${prefix()}/objects/${second.id}`)
    expect(shown).toMatchObject({
      status: 200,
      body: { id: second.id, bucketId: id, key: 'k', contentLength: 3, checksumSha256: sha256, uploadSessionId: null },
    })
    expect(shown.headers.etag).toBeDefined()
    expect((await call(`GET ${prefix()}/objects/${first.id}`)).status).toBe(404)
    const trash = await call(`GET ${path}/trash`)
    expect(trash.body).toMatchObject({ items: [{ id: first.id, key: 'k' }], total: 1, nextCursor: null })
    expect(trash.body.items[0].deletedAt).toMatch(/Z$/)
  })

  test('of a hundred writers of one key, each wins once and all but the last are in the trash', async () => {
    const { id, path } = await newBucket()
    await Promise.all(Array.from({ length: 100 }, (_, n) => put(id, 'k', `content ${n}`)))
    expect((await call(`GET ${path}/objects`)).body).toMatchObject({ total: 1 })
    expect((await call(`GET ${path}/trash?limit=1000`)).body).toMatchObject({ total: 99 })
  })

  test('written and deleted in other orders at once are never refused for it', async () => {
    const { id, path } = await newBucket()
    const keys = Array.from({ length: 40 }, (_, n) => `k${String(n).padStart(2, '0')}`)
    for (let round = 0; round < 5; round++)
      await Promise.all([
        ...keys.toReversed().map((key) => put(id, key)),
        trashObjects(platform.api, id, keys),
        ...keys.map((key) => put(id, key)),
        trashObjects(platform.api, id, keys.toReversed()),
      ])
    await Promise.all(keys.map((key) => put(id, key)))
    expect((await call(`GET ${path}/objects`)).body.total).toBe(40)
  })

  test('of a hundred conditional writers of one key, one wins', async () => {
    const { id } = await newBucket()
    const racers = await Promise.allSettled(
      Array.from({ length: 100 }, (_, n) => put(id, 'k', `content ${n}`, { ifNoneMatch: true })),
    )
    expect(racers.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
    const { etag = '' } = (await findObjectWithContent(platform.api, id, 'k'))?.object ?? {}
    const swaps = await Promise.allSettled(
      Array.from({ length: 100 }, (_, n) => put(id, 'k', `next ${n}`, { ifMatch: etag })),
    )
    expect(swaps.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
    const reasons = swaps.flatMap((swap) => (swap.status === 'rejected' ? [(swap.reason as Error).name] : []))
    expect(new Set(reasons)).toEqual(new Set(['PreconditionFailed']))
  })
})

describe('lists', () => {
  const keys = ['a!b', 'a-1', 'a.txt', 'a/x', 'a/y/z', 'a0', 'b', 'é', '😀', '\u{ffff}']

  async function allPages(
    path: string,
    query: string,
  ): Promise<{ keys: string[]; prefixes: string[]; totals: number[] }> {
    const seen = { keys: [] as string[], prefixes: [] as string[], totals: [] as number[] }
    for (let cursor: string | null = ''; cursor !== null;) {
      const page = await call(`GET ${path}/objects?${query}${cursor === '' ? '' : `&cursor=${cursor}`}`)
      expect(page.status).toBe(200)
      seen.keys.push(...keysOf(page))
      seen.prefixes.push(...(page.body.commonPrefixes as string[]))
      seen.totals.push(page.body.total as number)
      cursor = page.body.nextCursor as string | null
    }
    return seen
  }

  test('are in the order of the bytes of keys, and every page size gives the same (storage.md)', async () => {
    const { id, path } = await newBucket()
    for (const key of keys.toReversed()) await put(id, key)
    const sorted = keys.toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
    for (const limit of [1, 2, 3, 100]) {
      const plain = await allPages(path, `limit=${limit}`)
      expect(plain.keys).toEqual(sorted)
      expect(new Set(plain.totals)).toEqual(new Set([keys.length]))
      expect(await allPages(path, `limit=${limit}&delimiter=/`)).toMatchObject({
        keys: sorted.filter((key) => !key.includes('/')),
        prefixes: ['a/'],
      })
      expect(await allPages(path, `limit=${limit}&delimiter=/&prefix=a/`)).toMatchObject({
        keys: ['a/x'],
        prefixes: ['a/y/'],
      })
      expect(await allPages(path, `limit=${limit}&prefix=a`)).toMatchObject({
        keys: ['a!b', 'a-1', 'a.txt', 'a/x', 'a/y/z', 'a0'],
        prefixes: [],
      })
    }
  })

  test('go on at the same place when what the cursor stands on is gone, and refuse a cursor of another list (D33)', async () => {
    const { id, path } = await newBucket()
    const stored = []
    for (const key of ['a', 'b', 'c', 'd']) stored.push(await put(id, key))
    const first = await call(`GET ${path}/objects?limit=2`)
    await call(`DELETE ${prefix()}/objects/${stored[1]?.id}`)
    const second = await call(`GET ${path}/objects?limit=2&cursor=${first.body.nextCursor}`)
    expect([keysOf(first), keysOf(second), second.body.nextCursor]).toEqual([['a', 'b'], ['c', 'd'], null])
    expect((await call(`GET ${path}/objects?limit=2&prefix=a&cursor=${first.body.nextCursor}`)).status).toBe(400)
    expect((await call(`GET ${path}/objects?cursor=nonsense`)).status).toBe(400)
  })

  test('of the trash are newest first', async () => {
    const { id, path } = await newBucket()
    for (const key of ['a', 'b', 'c']) {
      const { id: objectId } = await put(id, key)
      await call(`DELETE ${prefix()}/objects/${objectId}`)
    }
    const first = await call(`GET ${path}/trash?limit=2`)
    const second = await call(`GET ${path}/trash?limit=2&cursor=${first.body.nextCursor}`)
    expect([keysOf(first), keysOf(second), second.body.nextCursor]).toEqual([['c', 'b'], ['a'], null])
  })
})

describe('the trash', () => {
  test('gives an object back under its key, unless another has that (A §3)', async () => {
    const { id, path } = await newBucket()
    const first = await put(id, 'k', 'one')
    await call(`DELETE ${prefix()}/objects/${first.id}`)
    expect((await call(`DELETE ${prefix()}/objects/${first.id}`)).status).toBe(404)
    const second = await put(id, 'k', 'two')
    expect(await call(`POST ${prefix()}/trash/${first.id}/restore`)).toMatchObject({
      status: 409,
      body: { error: 'The key is in use by another object' },
    })
    await call(`DELETE ${prefix()}/objects/${second.id}`)
    expect(await call(`POST ${prefix()}/trash/${first.id}/restore`)).toMatchObject({
      status: 200,
      body: { id: first.id },
    })
    expect((await read(id, 'k'))?.toString()).toBe('one')
    expect((await call(`POST ${prefix()}/trash/${first.id}/restore`)).status).toBe(404)
    expect((await call(`GET ${path}/trash`)).body).toMatchObject({ total: 1 })
  })

  test('of a hundred restores and writes of one key at once one object is live, and no row is lost', async () => {
    const { id, path } = await newBucket()
    const trashed: string[] = []
    for (let n = 0; n < 10; n++) trashed.push((await put(id, 'k', `old ${n}`)).id)
    await call(`DELETE ${path}/objects?prefix=k`)
    const racing = Array.from({ length: 100 }, (_, n) =>
      n % 2 === 0
        ? put(id, 'k', `new ${n}`).then(() => 200)
        : call(`POST ${prefix()}/trash/${trashed[n % 10]}/restore`).then(({ status }) => status),
    )
    const statuses = await Promise.all(racing)
    expect(statuses.every((status) => [200, 404, 409].includes(status))).toBe(true)
    const [live, trash] = await Promise.all([call(`GET ${path}/objects`), call(`GET ${path}/trash?limit=1000`)])
    expect([live.body.total, live.body.items.length, trash.body.total, trash.body.items.length]).toEqual([1, 1, 59, 59])
  })

  test('gives nothing back into a bucket that is being deleted: of a restore and a deletion at once one fails', async () => {
    const race = async (of: 'one' | 'all', ...order: ('restore' | 'deletion')[]) => {
      const { id, path } = await newBucket()
      const object = await put(id, 'k')
      await call(`DELETE ${prefix()}/objects/${object.id}`)
      const restored = of === 'one' ? `${prefix()}/trash/${object.id}/restore` : `${path}/trash/restore`
      const racers = {
        restore: () => call(`POST ${restored}`, of === 'all' ? {} : undefined),
        deletion: () => call(`DELETE ${path}`),
      }
      const answers = await holding(
        platform.databaseUrl,
        (held) => held`select from buckets where id = ${id} for update`,
        order.map((who) => racers[who]),
      )
      return answers.map(({ status, body }) => (status === 200 && of === 'all' ? body : status))
    }
    expect(await race('one', 'deletion', 'restore')).toEqual([204, 404])
    expect(await race('all', 'deletion', 'restore')).toEqual([204, { restoredCount: 0 }])
    expect(await race('one', 'restore', 'deletion')).toEqual([200, 409])
    expect(await race('all', 'restore', 'deletion')).toEqual([{ restoredCount: 1 }, 409])
  })

  test('takes and gives back everything below a prefix, of each key what was deleted last', async () => {
    const { id, path } = await newBucket()
    await put(id, 'x/a', 'older')
    for (const key of ['x/a', 'x/b', 'x/c', 'y']) await put(id, key, `newer ${key}`)
    expect((await call(`DELETE ${path}/objects?prefix=x/`)).body).toEqual({ trashedCount: 3 })
    expect(keysOf(await call(`GET ${path}/objects`))).toEqual(['y'])
    await put(id, 'x/b', 'taken meanwhile')
    expect((await call(`POST ${path}/trash/restore`, { prefix: 'x/' })).body).toEqual({ restoredCount: 2 })
    expect((await read(id, 'x/a'))?.toString()).toBe('newer x/a')
    expect((await read(id, 'x/b'))?.toString()).toBe('taken meanwhile')
    const later = new Date(Date.now() + 60_000).toISOString()
    expect((await call(`POST ${path}/trash/restore`, { deletedAfter: later })).body).toEqual({ restoredCount: 0 })
    expect((await call(`DELETE ${path}/objects?prefix=`)).status).toBe(422)
  })

  test('gives back more than one step takes, and counts it right', async () => {
    const { id, path } = await newBucket()
    const many = 11_000
    // For each key one that was deleted earlier, which stays in the trash.
    await platform.api.db.execute(sql`
      insert into objects (id, bucket_id, key, content_type, content_length, etag, headers, metadata, tags, blob_count,
        uploaded_at, created_at, updated_at, deleted_at)
      select gen_random_uuid(), ${id}, 'many/' || n, 'text/plain', 0, age, '{}', '{}', '{}', 0, now(), now(), now(),
        now() - age * interval '1 minute'
      from generate_series(1, ${many}::int) n, generate_series(0, 1) age`)
    await platform.api.db.execute(sql`
      insert into bucket_counts (bucket_id, shard, objects, bytes, trashed, trashed_bytes)
      values (${id}, 0, 0, 0, ${2 * many}::int, 0) on conflict (bucket_id, shard) do update set trashed = excluded.trashed`)
    await put(id, 'many/7', 'taken')
    expect((await call(`POST ${path}/trash/restore`, {})).body).toEqual({ restoredCount: many - 1 })
    expect((await call(`GET ${path}/objects?limit=1`)).body.total).toBe(many)
    expect((await call(`GET ${path}/trash?limit=1`)).body.total).toBe(many + 1)
    expect((await read(id, 'many/7'))?.toString()).toBe('taken')
    const old = await findObjectWithContent(platform.api, id, 'many/8')
    expect(old?.object.etag).toBe('0')
    expect((await call(`POST ${path}/trash/restore`, {})).body).toEqual({ restoredCount: 0 })
  })

  test('is emptied one by one or at once, and its bytes are collected (A §3)', async () => {
    const { id, path } = await newBucket()
    const objects = []
    for (const key of ['a', 'b', 'c']) objects.push(await put(id, key, 'x'.repeat(50_000)))
    expect((await call(`DELETE ${path}/objects?prefix=b`)).body).toEqual({ trashedCount: 1 })
    expect((await call(`DELETE ${prefix()}/trash/${objects[0]?.id}`)).status).toBe(404)
    expect((await call(`DELETE ${prefix()}/trash/${objects[1]?.id}`)).status).toBe(204)
    expect((await call(`DELETE ${prefix()}/trash/${objects[1]?.id}`)).status).toBe(404)
    await call(`DELETE ${path}/objects?prefix=a`)
    await call(`DELETE ${path}/objects?prefix=c`)
    expect((await call(`DELETE ${path}/trash`)).body).toEqual({ purgedCount: 2 })
    expect((await call(`DELETE ${path}/trash`)).body).toEqual({ purgedCount: 0 })
  })
})

describe('access URLs', () => {
  test('are signed and end for private objects, and last for public ones (A §4, D40)', async () => {
    const hidden = await newBucket()
    const object = await put(hidden.id, 'dir/file name.txt')
    const before = Date.now()
    const signed = await call(`GET ${prefix()}/objects/${object.id}/access-url?expiresInSeconds=60`)
    expect(signed).toMatchObject({ status: 200, body: { accessType: 'signed' } })
    expect(signed.body.url).toMatch(
      new RegExp(`^${platform.edgeUrl}/_objects/${hidden.name}/dir/file%20name\\.txt\\?access=\\d+\\.`),
    )
    // To the second, as the URL tells it.
    const expiresAt = Date.parse(signed.body.expiresAt as string)
    expect(expiresAt).toBeGreaterThan(before + 59_000)
    expect(expiresAt).toBeLessThan(Date.now() + 61_000)
    const open = await newBucket({ visibility: 'public' })
    const shown = await put(open.id, '../x')
    expect(await call(`GET ${prefix()}/objects/${shown.id}/access-url`)).toMatchObject({
      status: 200,
      body: {
        accessType: 'public',
        // Not by path: browsers would resolve the dots, and read another bucket.
        url: `http://${open.name}.${platform.api.objectsDomain}/%2E%2E/x`,
        expiresAt: null,
      },
    })
  })

  test('open in every program below localhost, and at the bucket’s own hostname anywhere else (D92)', async () => {
    const open = await newBucket({ visibility: 'public' })
    const { id } = await put(open.id, 'a.txt')
    const { body } = await call(`GET ${prefix()}/objects/${id}/access-url`)
    // Node cannot resolve hosts below localhost; that is the point.
    const answer = await fetch(body.url as string)
    expect([answer.status, answer.headers.get('content-security-policy')]).toEqual([200, 'sandbox'])
    const urlAt = (objectsDomain: string, publicUrl: string) =>
      publicUrlOf({ objectsDomain, publicUrl }, { slug: 'media' }, 'a.txt')
    expect([
      urlAt('objects.localhost:4002', 'http://localhost:4000'),
      urlAt('localhost:4002', 'http://localhost:4000'),
      urlAt('objects.example.net', 'https://api.example.com'),
      urlAt('notlocalhost', 'https://api.example.com'),
    ]).toEqual([
      'http://localhost:4002/_objects/media/a.txt',
      'http://localhost:4002/_objects/media/a.txt',
      'https://media.objects.example.net/a.txt',
      'https://media.notlocalhost/a.txt',
    ])
  })

  test.each(['59', '86401', '1e3', ''])('cannot last %s seconds', async (expiresInSeconds) => {
    const { id } = await newBucket()
    const object = await put(id, 'k')
    const answer = await call(`GET ${prefix()}/objects/${object.id}/access-url?expiresInSeconds=${expiresInSeconds}`)
    expect(answer).toMatchObject({ status: 422, body: { property: '/expiresInSeconds' } })
  })
})
