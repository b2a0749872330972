// engines: s3
import { createHash, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { text } from 'node:stream/consumers'
import { CreateBucketCommand, GetObjectCommand, HeadObjectCommand } from '@aws-sdk/client-s3'
import { createPresignedPost, type PresignedPostOptions } from '@aws-sdk/s3-presigned-post'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { isDrill } from '@platform/testkit/test-environment'
import { eq } from 'drizzle-orm'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openDice } from '../../../../test/dice.ts'
import {
  bucketName,
  newS3User,
  type S3User,
  startS3,
  statusOf,
  storageScopes,
  type TestS3,
} from '../../../../test/s3.ts'
import { apiKeys } from '../../credentials/api-keys/table.ts'
import { environments } from '../../tenancy/applications/table.ts'

let platform: TestPlatform
let s3: TestS3
let ana: S3User
const Bucket = bucketName()
beforeAll(async () => {
  platform = await startPlatform()
  s3 = await startS3(platform)
  ana = await newS3User(s3)
  await ana.client.send(new CreateBucketCommand({ Bucket }))
})
afterAll(async () => {
  await s3.close()
  await platform.close()
})

const BOUNDARY = '----form-boundary-0123456789'

/** A file in blocks that contain partial boundaries. */
function* fileOf(size: number, next: () => number): Generator<Buffer> {
  const lure = Buffer.from(`\r\n--${BOUNDARY.slice(0, -1)}\r\n\r\n`)
  for (let left = size; left > 0;) {
    const block = Buffer.alloc(Math.min(left, 65_536), Math.floor(next() * 256))
    if (block.length > lure.length) lure.copy(block, Math.floor(next() * (block.length - lure.length)))
    left -= block.length
    yield block
  }
}

/** The same bytes in pieces of `sizeOf()`. */
function* cut(blocks: Iterable<Buffer>, sizeOf: () => number): Generator<Buffer> {
  let rest = Buffer.alloc(0)
  let size = sizeOf()
  for (const block of blocks) {
    rest = Buffer.concat([rest, block])
    while (rest.length >= size) {
      yield rest.subarray(0, size)
      rest = rest.subarray(size)
      size = sizeOf()
    }
  }
  if (rest.length > 0) yield rest
}

interface Form {
  fields: Record<string, string>
  fileName?: string
  file: Iterable<Buffer>
  /** Size of each piece. Each is sent as a separate chunk, so that it arrives as it was cut or in smaller pieces. */
  sizeOf: () => number
}

async function postForm({
  fields,
  fileName = 'file.bin',
  file,
  sizeOf,
}: Form): Promise<{ status: number; text: string }> {
  const heads = Object.entries(fields).map(
    ([name, value]) => `--${BOUNDARY}\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`,
  )
  const fileHead = `--${BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="${fileName}"\r\nContent-Type: a/b\r\n\r\n`
  function* body(): Generator<Buffer> {
    yield Buffer.from(heads.join('') + fileHead)
    yield* file
    yield Buffer.from(`\r\n--${BOUNDARY}--\r\n`)
  }
  const outgoing = request(`${s3.url}/${Bucket}`, {
    method: 'POST',
    headers: { 'content-type': `multipart/form-data; boundary=${BOUNDARY}` },
  })
  const answered = once(outgoing, 'response') as Promise<[IncomingMessage]>
  // A refused sender may be cut off after the answer.
  outgoing.on('error', () => {})
  const send = async () => {
    for (const piece of cut(body(), sizeOf)) if (!outgoing.write(piece)) await once(outgoing, 'drain')
    outgoing.end()
  }
  const [[incoming]] = await Promise.all([answered, send()])
  return { status: incoming.statusCode ?? 0, text: await text(incoming) }
}

const fieldsOf = async (Key: string, options: Partial<PresignedPostOptions> = {}): Promise<Record<string, string>> =>
  (await createPresignedPost(ana.client, { Bucket, Key, ...options })).fields

const LARGE = isDrill ? 100_000_000 : 8_000_000

test.each([15_000, 30_000, 1_000_000, LARGE])(
  'a file of %s bytes arrives whole, wherever its form is cut',
  async (size) => {
    const next = openDice().fraction
    // Pieces of any size up to 64 KiB, small ones as often as large ones; and one form whose fields are not cut.
    const anywhere = () => Math.ceil(2 ** (next() * 16))
    const cuts = size < LARGE ? [anywhere, anywhere, anywhere, () => 65_536] : [() => anywhere() + 1_000]
    for (const [n, sizeOf] of cuts.entries()) {
      const Key = `cut/${size}/${n}`
      const md5 = createHash('md5')
      function* file(): Generator<Buffer> {
        for (const block of fileOf(size, next)) {
          md5.update(block)
          yield block
        }
      }
      const answer = await postForm({ fields: await fieldsOf(Key), file: file(), sizeOf })
      expect(answer).toEqual({ status: 204, text: '' })
      const row = await ana.client.send(new HeadObjectCommand({ Bucket, Key }))
      expect(row).toMatchObject({ ContentLength: size, ETag: `"${md5.digest('hex')}"` })
    }
  },
)

test('fields of more than 20 KiB are refused, however much of the file has come with them', async () => {
  const fields = { ...(await fieldsOf('long')), 'x-ignore-long': 'y'.repeat(21_000) }
  for (const size of [10, 100_000]) {
    const answer = await postForm({ fields, file: [Buffer.alloc(size)], sizeOf: () => 65_536 })
    expect(answer).toMatchObject({ status: 400, text: expect.stringContaining('MaxPostPreDataLengthExceededError') })
  }
})

const policyOf = (policy: object) => Buffer.from(JSON.stringify(policy)).toString('base64')
const expiration = '2099-01-01T00:00:00Z'
test.each([
  ['no signature', { 'X-Amz-Signature': undefined }, 400, 'InvalidArgument'],
  ['an empty list of conditions', { Policy: policyOf({ expiration, conditions: [] }) }, 400, 'InvalidArgument'],
  ['an empty condition', { Policy: policyOf({ expiration, conditions: [{}] }) }, 400, 'InvalidArgument'],
  ['no list of conditions', { Policy: policyOf({ expiration }) }, 400, 'InvalidArgument'],
  ['a signature of version 2', { 'X-Amz-Signature': undefined, Signature: 'c2ln' }, 403, 'AccessDenied'],
])('a form with %s is refused and stores nothing', async (_, change, status, code) => {
  const entries = Object.entries<string | undefined>({ ...(await fieldsOf('unsigned')), ...change })
  const fields = Object.fromEntries(entries.flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])))
  const answer = await postForm({ fields, file: [Buffer.from('x')], sizeOf: () => 65_536 })
  expect(answer).toMatchObject({ status, text: expect.stringContaining(`<Code>${code}</Code>`) })
  expect(await statusOf(ana.client.send(new HeadObjectCommand({ Bucket, Key: 'unsigned' })))).toBe(404)
})

test('the name of the file stands in the key before the policy is held against it', async () => {
  const policy = (prefix: string) =>
    ({ Conditions: [['starts-with', '$key', prefix]] }) as Partial<PresignedPostOptions>
  const post = async (prefix: string, fileName: string) => {
    const fields = await fieldsOf('${filename}', policy(prefix))
    return (await postForm({ fields, fileName, file: [Buffer.from(fileName)], sizeOf: () => 65_536 })).status
  }
  expect(await post('foo', 'foo.txt')).toBe(204)
  expect(await post('foo', 'bar.txt')).toBe(403)
  expect(await post('${filename}', 'baz.txt')).toBe(403)
  expect(await post('foo', 'some/folder/foo2.txt')).toBe(204)
  for (const Key of ['foo.txt', 'foo2.txt'])
    expect(await (await ana.client.send(new GetObjectCommand({ Bucket, Key }))).Body?.transformToString()).toMatch(Key)
})

test('a form that a Function signed stores into buckets of its own environment alone (D9)', async () => {
  const { db } = platform.api
  const all = await db.select().from(environments).where(eq(environments.applicationId, ana.owner.applicationId))
  const postFrom = async (slug: string) => {
    const environmentId = all.find((environment) => environment.slug === slug)?.id ?? null
    const { key, client } = await newS3User(s3, storageScopes, ana.owner)
    const ofFunction = { deploymentId: randomUUID(), environmentId, createdByUserId: null }
    await db.update(apiKeys).set(ofFunction).where(eq(apiKeys.id, key.id))
    const { fields } = await createPresignedPost(client, { Bucket, Key: `of-${slug}` })
    return postForm({ fields, file: [Buffer.from(slug)], sizeOf: () => 65_536 })
  }
  expect(await postFrom('production')).toEqual({ status: 204, text: '' })
  expect(await postFrom('preview')).toMatchObject({
    status: 403,
    text: expect.stringContaining('<Code>AccessDenied</Code>'),
  })
  expect(await statusOf(ana.client.send(new HeadObjectCommand({ Bucket, Key: 'of-preview' })))).toBe(404)
})
