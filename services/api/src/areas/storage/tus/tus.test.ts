// engines: postgres, s3
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { holding } from '@platform/testkit/holding'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { eq } from 'drizzle-orm'
import { Upload } from 'tus-js-client'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { newKey, newOwner, type Owner, unique } from '../../../../test/scenario.ts'
import { collectGarbage } from '../objects/maintenance/collect-garbage.ts'
import { findObjectWithContent, openObject } from '../objects/read-object.ts'
import { blobs, uploadBlobs, uploads } from '../objects/table.ts'
import { expireUploads } from '../uploads/uploads.ts'

let platform: TestPlatform
let ana: Owner
let bucket: { id: string; name: string }
beforeAll(async () => {
  platform = await startPlatform()
  ana = await newOwner(platform)
  bucket = await newBucket()
})
afterAll(() => platform.close())

async function newBucket(): Promise<{ id: string; name: string }> {
  const made = await platform.call(ana.token, `POST /applications/${ana.applicationId}/storage/buckets`, {
    name: `b-${unique()}`,
  })
  expect(made.status).toBe(201)
  return made.body as { id: string; name: string }
}
const sha256 = (bytes: Buffer | string) => createHash('sha256').update(bytes).digest('hex')

async function stored(key: string): Promise<Buffer | undefined> {
  const row = await findObjectWithContent(platform.api, bucket.id, key)
  if (!row) return undefined
  const content = openObject(platform.api, row.object, row.first)
  return Buffer.isBuffer(content) ? content : buffer(content)
}

const metadata = (headers: Record<string, string>) =>
  Object.entries(headers)
    .map(([name, value]) => `${name} ${Buffer.from(value).toString('base64')}`)
    .join(',')
const target = (key: string, more: Record<string, string> = {}) =>
  metadata({ applicationId: ana.applicationId, bucket: bucket.name, key, ...more })

const send = (method: string, url: string, headers: Record<string, string> = {}, body?: Buffer) =>
  fetch(url, {
    method,
    headers: { 'tus-resumable': '1.0.0', ...headers },
    ...(body && { body: new Uint8Array(body) }),
  })
const post = (headers: Record<string, string>, body?: Buffer, token = ana.token) =>
  send('POST', `${platform.apiUrl}/files`, { authorization: `Bearer ${token}`, ...headers }, body)
const octets = { 'content-type': 'application/offset+octet-stream' }
const patch = (url: string, offset: number, body: Buffer, more: Record<string, string> = {}) =>
  send('PATCH', url, { ...octets, 'upload-offset': String(offset), ...more }, body)
const offsetOf = async (url: string) => (await send('HEAD', url)).headers.get('upload-offset')

async function begin(key: string, length: number, more: Record<string, string> = {}): Promise<string> {
  const made = await post({ 'upload-length': String(length), 'upload-metadata': target(key), ...more })
  expect(made.status).toBe(201)
  return made.headers.get('location') ?? ''
}

/** Sends the head of a PATCH and some of its bytes, then stalls. */
function stall(url: string, offset: number, length: number, some: Buffer, more: Record<string, string> = {}) {
  const sent = request(url, {
    method: 'PATCH',
    headers: { 'tus-resumable': '1.0.0', ...octets, 'upload-offset': offset, 'content-length': length, ...more },
  })
  sent.on('error', () => {})
  sent.write(some)
  return sent
}
async function rowOf(url: string) {
  const id = /files\/([0-9a-f-]+)\./.exec(url)?.[1] ?? ''
  const [row] = await platform.api.db.select().from(uploads).where(eq(uploads.id, id))
  return row
}
/** Polls until the condition holds, for as long as the project has patience. */
async function until(what: () => Promise<boolean>): Promise<void> {
  await expect.poll(what, { interval: 5 }).toBe(true)
}

describe('creation (tus 1.0.0)', () => {
  test('says what is spoken', async () => {
    const answer = await fetch(`${platform.apiUrl}/files`, { method: 'OPTIONS' })
    expect([answer.status, answer.headers.get('tus-version'), answer.headers.get('tus-extension')]).toEqual([
      204,
      '1.0.0',
      'creation,creation-with-upload,creation-defer-length,checksum,expiration,termination,concatenation',
    ])
    const other = await send('POST', `${platform.apiUrl}/files`, { 'tus-resumable': '0.2.2' })
    expect([other.status, other.headers.get('tus-version')]).toEqual([412, '1.0.0'])
  })

  test('needs a token with the scope to write, and a bucket in reach', async () => {
    const right = { 'upload-length': '1', 'upload-metadata': target('k') }
    expect((await send('POST', `${platform.apiUrl}/files`, right)).status).toBe(401)
    expect((await post(right, undefined, 'garbage')).status).toBe(401)
    const reader = await ana.person.token(['network:storage:read'])
    expect((await post(right, undefined, reader)).status).toBe(403)
    const ben = await newOwner(platform)
    const foreign = await post(right, undefined, ben.token)
    expect([foreign.status, await foreign.json()]).toEqual([404, { error: 'Application not found' }])
    const nowhere = metadata({ applicationId: ana.applicationId, bucket: 'nowhere', key: 'k' })
    expect((await post({ ...right, 'upload-metadata': nowhere })).status).toBe(404)
    const key = await newKey(platform, ana, ['network:storage:write'])
    const byKey = await post(
      { 'upload-length': '1', 'upload-metadata': metadata({ bucket: bucket.name, key: 'by key' }) },
      undefined,
      key.token,
    )
    expect(byKey.status).toBe(201)
  })

  test.each<[string, Record<string, string>]>([
    ['no length', { 'upload-metadata': 'x' }],
    ['two lengths', { 'upload-length': '1', 'upload-defer-length': '1' }],
    ['a length that is none', { 'upload-length': '-1' }],
    ['metadata that are no base64', { 'upload-length': '1', 'upload-metadata': 'key *' }],
    ['metadata twice', { 'upload-length': '1', 'upload-metadata': 'key eA==,key eA==' }],
    ['no bucket', { 'upload-length': '1', 'upload-metadata': metadata({ key: 'k' }) }],
    ['a concatenation that is neither', { 'upload-length': '1', 'upload-concat': 'some' }],
  ])('refuses %s', async (_, headers) => {
    expect((await post(headers)).status).toBe(400)
  })

  test.each(['', 'x'.repeat(1_025), 'a\0b'])('refuses the key %j', async (key) => {
    expect((await post({ 'upload-length': '1', 'upload-metadata': target(key) })).status).toBe(400)
  })

  test('refuses what is larger than an object can be', async () => {
    expect((await post({ 'upload-length': String(5 * 1024 ** 4 + 1), 'upload-metadata': target('k') })).status).toBe(
      413,
    )
  })

  test('takes bytes along, and an upload of none is complete', async () => {
    const [whole, part, none] = [unique(), unique(), unique()]
    const made = await post({ ...octets, 'upload-length': '3', 'upload-metadata': target(whole) }, Buffer.from('abc'))
    expect([made.status, made.headers.get('upload-offset')]).toEqual([201, '3'])
    expect((await stored(whole))?.toString()).toBe('abc')
    const some = await post({ ...octets, 'upload-length': '3', 'upload-metadata': target(part) }, Buffer.from('a'))
    expect(some.headers.get('upload-offset')).toBe('1')
    expect((await patch(some.headers.get('location') ?? '', 1, Buffer.from('bc'))).status).toBe(204)
    expect((await stored(part))?.toString()).toBe('abc')
    await begin(none, 0)
    expect((await stored(none))?.length).toBe(0)
  })

  test('may leave the length for later', async () => {
    const key = unique()
    const made = await post({ 'upload-defer-length': '1', 'upload-metadata': target(key) })
    const url = made.headers.get('location') ?? ''
    expect((await send('HEAD', url)).headers.get('upload-defer-length')).toBe('1')
    expect((await patch(url, 0, Buffer.from('ab'))).status).toBe(204)
    expect((await patch(url, 2, Buffer.from('c'), { 'upload-length': '1' })).status).toBe(400)
    expect((await patch(url, 2, Buffer.from('c'), { 'upload-length': '3' })).status).toBe(204)
    expect((await stored(key))?.toString()).toBe('abc')
  })

  test.each([
    ['some bytes', 'abc'],
    ['none', ''],
  ])('may declare the length behind the last byte, with an empty body: %s', async (_, content) => {
    const key = unique()
    const made = await post({ 'upload-defer-length': '1', 'upload-metadata': target(key) })
    const url = made.headers.get('location') ?? ''
    if (content !== '') expect((await patch(url, 0, Buffer.from(content))).status).toBe(204)
    const length = String(content.length)
    const last = await patch(url, content.length, Buffer.alloc(0), { 'upload-length': length })
    expect([last.status, last.headers.get('upload-offset')]).toEqual([204, length])
    expect((await stored(key))?.toString()).toBe(content)
    const told = await send('HEAD', url)
    expect([told.headers.get('upload-length'), told.headers.get('upload-defer-length')]).toEqual([length, null])
  })

  test('keeps the length that was declared first, when two are declared at once', async () => {
    const made = await post({ 'upload-defer-length': '1', 'upload-metadata': target(unique()) })
    const url = made.headers.get('location') ?? ''
    const id = /files\/([^.]+)/.exec(url)?.[1] ?? ''
    const declare = (length: string) => () => patch(url, 0, Buffer.alloc(0), { 'upload-length': length })
    const answers = await holding(
      platform.databaseUrl,
      (sql) => sql`select 1 from uploads where id = ${id} for update`,
      [declare('3'), declare('4')],
    )
    expect(answers.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([204, 400])
  })

  test('under If-None-Match fails where the key is taken by the time the bytes are there', async () => {
    const key = unique()
    const url = await begin(key, 1, { 'if-none-match': '*' })
    await post({ ...octets, 'upload-length': '1', 'upload-metadata': target(key) }, Buffer.from('1'))
    expect((await patch(url, 0, Buffer.from('2'))).status).toBe(412)
    expect((await stored(key))?.toString()).toBe('1')
    expect((await send('HEAD', url)).status).toBe(410)
  })
})

describe('appending', () => {
  test('refuses another offset, another type and more bytes than declared', async () => {
    const url = await begin(unique(), 4)
    expect((await patch(url, 1, Buffer.from('x'))).status).toBe(409)
    expect((await patch(url, 0, Buffer.from('x'), { 'content-type': 'text/plain' })).status).toBe(415)
    expect((await patch(url, 0, Buffer.from('12345'))).status).toBe(413)
    expect(await offsetOf(url)).toBe('0')
    expect(
      (
        await patch(
          url.replace(/.$/, (c) => (c === 'A' ? 'B' : 'A')),
          0,
          Buffer.from('x'),
        )
      ).status,
    ).toBe(404)
  })

  test.each(['sha1', 'sha256', 'md5'])(
    'holds the bytes against their %s, and keeps none that differ',
    async (algorithm) => {
      const key = unique()
      const url = await begin(key, 3)
      const sum = (text: string) => `${algorithm} ${createHash(algorithm).update(text).digest('base64')}`
      const wrong = await patch(url, 0, Buffer.from('abc'), { 'upload-checksum': sum('abd') })
      expect([wrong.status, await offsetOf(url)]).toEqual([460, '0'])
      expect((await patch(url, 0, Buffer.from('abc'), { 'upload-checksum': 'crc32 AAAA' })).status).toBe(400)
      expect((await patch(url, 0, Buffer.from('abc'), { 'upload-checksum': sum('abc') })).status).toBe(204)
      expect((await stored(key))?.toString()).toBe('abc')
    },
  )

  test('keeps what arrived before the client left', async () => {
    const key = unique()
    const content = randomBytes(200_000)
    const url = await begin(key, content.length)
    const cut = stall(url, 0, content.length, content.subarray(0, 100_000))
    await until(async () => (await rowOf(url))?.leaseHolder !== null)
    cut.socket?.end()
    await until(async () => (await rowOf(url))?.offset === 100_000)
    expect(await offsetOf(url)).toBe('100000')
    expect((await patch(url, 100_000, content.subarray(100_000))).status).toBe(204)
    expect((await stored(key))?.equals(content)).toBe(true)
  })

  test('goes on with right hashes, though the request that was to bring all left no state of them', async () => {
    const key = unique()
    const content = randomBytes(300_000)
    const url = await begin(key, content.length)
    const cut = stall(url, 0, content.length, content.subarray(0, 100_000))
    await until(async () => (await rowOf(url))?.leaseHolder !== null)
    cut.socket?.end()
    await until(async () => (await rowOf(url))?.offset === 100_000)
    expect((await rowOf(url))?.hashState).toBeNull()
    expect((await patch(url, 100_000, content.subarray(100_000, 250_000))).status).toBe(204)
    expect((await rowOf(url))?.hashState).not.toBeNull()
    expect((await patch(url, 250_000, content.subarray(250_000))).status).toBe(204)
    const row = await findObjectWithContent(platform.api, bucket.id, key)
    expect(row?.object).toMatchObject({
      etag: createHash('md5').update(content).digest('hex'),
      checksumSha256: createHash('sha256').update(content).digest(),
    })
  })

  test('keeps nothing of what a client left in the middle of under a checksum', async () => {
    const content = randomBytes(200_000)
    const url = await begin(unique(), content.length)
    const checksum = `sha256 ${createHash('sha256').update(content).digest('base64')}`
    const cut = stall(url, 0, content.length, content.subarray(0, 100_000), { 'upload-checksum': checksum })
    await until(async () => (await rowOf(url))?.leaseHolder !== null)
    cut.socket?.end()
    await until(async () => (await rowOf(url))?.leaseHolder === null)
    expect(await offsetOf(url)).toBe('0')
  })

  test('by somebody new goes on within a second, though the one before is stuck', async () => {
    const key = unique()
    const content = randomBytes(300_000)
    const url = await begin(key, content.length)
    const stuck = stall(url, 0, content.length, content.subarray(0, 100_000))
    await until(async () => (await rowOf(url))?.leaseHolder !== null)
    // The one before is stuck until the end of this test: nobody waits for it.
    const offset = Number(await offsetOf(url))
    expect((await patch(url, offset, content.subarray(offset))).status).toBe(204)
    expect((await stored(key))?.equals(content)).toBe(true)
    stuck.destroy()
  })

  // Either one alone stops a writer, so that a fault in the other loses no bytes.
  test.each([
    ['was taken over meanwhile, though nothing was appended', 'lease_holder = gen_random_uuid()', 0],
    ['was appended to meanwhile, though under the same lease', '"offset" = 7', 7],
  ])('to an upload that %s is refused, and keeps nothing', async (_, change, offset) => {
    const url = await begin(unique(), 10)
    const sent = stall(url, 0, 10, Buffer.from('01234'))
    const answered = once(sent, 'response') as Promise<[IncomingMessage]>
    await until(async () => typeof (await rowOf(url))?.leaseHolder === 'string')
    const { id = '' } = (await rowOf(url)) ?? {}
    const [[answer]] = await holding(
      platform.databaseUrl,
      (held) => held`update uploads set ${held.unsafe(change)} where id = ${id}`,
      [
        () => {
          sent.end('56789')
          return answered
        },
      ],
    )
    expect(answer.statusCode).toBe(409)
    expect(await rowOf(url)).toMatchObject({ offset, state: 'pending' })
    const kept = await platform.api.db.select().from(uploadBlobs).where(eq(uploadBlobs.uploadId, id))
    expect(kept).toEqual([])
  })

  test('by two at once never mixes their bytes', async () => {
    for (let round = 0; round < 10; round++) {
      const key = unique()
      const url = await begin(key, 50_000)
      const [a, b] = [Buffer.alloc(50_000, 'a'), Buffer.alloc(50_000, 'b')]
      const answers = await Promise.all(
        [patch(url, 0, a), patch(url, 0, b)].map((sent) =>
          sent.then(
            ({ status }) => status,
            () => 0,
          ),
        ),
      )
      const content = await stored(key)
      if (content) expect([a, b].some((whole) => whole.equals(content))).toBe(true)
      expect(answers.filter((status) => status === 204).length).toBe(content ? 1 : 0)
    }
  })
})

describe('the end of an upload', () => {
  test('comes when it is terminated', async () => {
    const url = await begin(unique(), 4)
    await patch(url, 0, Buffer.from('ab'))
    expect((await send('DELETE', url)).status).toBe(204)
    expect((await send('HEAD', url)).status).toBe(404)
  })

  test('comes with time; its bytes are collected', async () => {
    const url = await begin(unique(), 100_000)
    await patch(url, 0, randomBytes(50_000))
    const before = await platform.api.db.$count(blobs)
    const expires = (await send('HEAD', url)).headers.get('upload-expires') ?? ''
    expect(Date.parse(expires)).toBeGreaterThan(Date.now() + 86_000_000)
    platform.clock.advance(86_400_000)
    expect((await send('HEAD', url)).status).toBe(410)
    await expireUploads(platform.api)
    await collectGarbage(platform.api)
    platform.clock.advance(3_600_001)
    await collectGarbage(platform.api)
    platform.clock.advance(-86_400_000 - 3_600_001)
    expect(await platform.api.db.$count(blobs)).toBeLessThan(before)
  })
})

describe('concatenation', () => {
  test('puts partial uploads together without moving their bytes', async () => {
    const key = unique()
    const parts = []
    for (const content of ['some ', 'by', 'tes']) {
      const made = await post(
        { ...octets, 'upload-concat': 'partial', 'upload-length': String(content.length) },
        Buffer.from(content),
      )
      parts.push(made.headers.get('location') ?? '')
    }
    const unfinished = await post({ 'upload-concat': 'partial', 'upload-length': '3' })
    const concat = (urls: string[], more: Record<string, string> = {}, token = ana.token) =>
      post({ 'upload-concat': `final;${urls.join(' ')}`, 'upload-metadata': target(key, more) }, undefined, token)
    expect((await concat([...parts, unfinished.headers.get('location') ?? ''])).status).toBe(409)
    expect((await concat(parts, { checksumSha256: sha256('other') })).status).toBe(400)
    const whole = await concat(
      parts.map((url) => new URL(url).pathname),
      { checksumSha256: sha256('some bytes') },
    )
    expect(whole.status).toBe(201)
    expect((await stored(key))?.toString()).toBe('some bytes')
    const url = whole.headers.get('location') ?? ''
    const head = await send('HEAD', url)
    expect([head.headers.get('upload-length'), head.headers.get('upload-concat')]).toEqual([
      '10',
      expect.stringMatching(/^final;/),
    ])
    expect((await patch(url, 10, Buffer.from('x'))).status).toBe(403)
    const ben = await newOwner(platform)
    expect((await concat(parts, {}, ben.token)).status).toBe(404)
  })
})

describe('tus-js-client', () => {
  const upload = (content: Buffer, key: string, more: object = {}) =>
    new Promise<void>((resolve, reject) => {
      new Upload(Readable.from([content]) as never, {
        endpoint: `${platform.apiUrl}/files`,
        uploadSize: content.length,
        chunkSize: 70_000,
        headers: { authorization: `Bearer ${ana.token}` },
        metadata: { applicationId: ana.applicationId, bucket: bucket.name, key },
        retryDelays: [],
        onSuccess: () => resolve(),
        onError: reject,
        ...more,
      }).start()
    })

  test('uploads in chunks', async () => {
    const content = randomBytes(250_000)
    const key = unique()
    await upload(content, key)
    expect((await stored(key))?.equals(content)).toBe(true)
  })

  test('uploads in parallel', async () => {
    const content = randomBytes(250_000)
    const key = unique()
    await new Promise<void>((resolve, reject) => {
      new Upload(content as never, {
        endpoint: `${platform.apiUrl}/files`,
        parallelUploads: 3,
        headers: { authorization: `Bearer ${ana.token}` },
        metadata: { applicationId: ana.applicationId, bucket: bucket.name, key },
        retryDelays: [],
        onSuccess: () => resolve(),
        onError: reject,
      }).start()
    })
    expect((await stored(key))?.equals(content)).toBe(true)
  })
})
