// engines: postgres, s3
import { CreateBucketCommand, PutObjectCommand } from '@aws-sdk/client-s3'
import { holding } from '@platform/testkit/holding'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { and, eq, isNull } from 'drizzle-orm'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  bucketName,
  newS3User,
  type S3Answer,
  type S3User,
  sendSigned,
  startS3,
  type TestS3,
} from '../../../../test/s3.ts'
import { buckets, objects } from '../objects/table.ts'

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

interface Facts {
  etag: string
  size: number
  uploadedAt: Date
}

async function put(Key: string, Body: string): Promise<Facts> {
  const { ETag = '' } = await ana.client.send(new PutObjectCommand({ Bucket, Key, Body }))
  const { uploadedAt } = await liveObject(Key)
  return { etag: ETag, size: Body.length, uploadedAt }
}

const liveObjects = (key: string) =>
  platform.api.db
    .select({ id: objects.id, uploadedAt: objects.uploadedAt })
    .from(objects)
    .innerJoin(buckets, eq(buckets.id, objects.bucketId))
    .where(and(eq(buckets.name, Bucket), eq(objects.key, key), isNull(objects.deletedAt)))
/** The one live object of a key. */
async function liveObject(key: string) {
  const [object] = await liveObjects(key)
  if (!object) throw new Error(`There is no ${key}`)
  return object
}
const exists = async (key: string): Promise<boolean> => (await liveObjects(key)).length > 0

const deleteOne = (key: string, headers: Record<string, string>): Promise<S3Answer> =>
  sendSigned(s3, { method: 'DELETE', path: `/s3/${Bucket}/${key}`, headers }, ana)
const deleteListed = (...listed: string[]): Promise<S3Answer> => {
  const body = `<Delete>${listed.map((elements) => `<Object>${elements}</Object>`).join('')}</Delete>`
  return sendSigned(s3, { method: 'POST', path: `/s3/${Bucket}?delete`, body }, ana)
}

/** Conditions on an object, with a value that holds and one that does not. */
const conditions = [
  ['a size', ({ size }: Facts) => ['x-amz-if-match-size', 'Size', String(size), '9999']],
  [
    'a time in whole seconds',
    ({ uploadedAt }: Facts) => [
      'x-amz-if-match-last-modified-time',
      'LastModifiedTime',
      uploadedAt.toUTCString(),
      'Mon, 01 Jan 2001 00:00:00 GMT',
    ],
  ],
  [
    'a time in milliseconds',
    ({ uploadedAt }: Facts) => [
      'x-amz-if-match-last-modified-time',
      'LastModifiedTime',
      uploadedAt.toISOString(),
      new Date(uploadedAt.getTime() + 1).toISOString(),
    ],
  ],
  ['an ETag', ({ etag }: Facts) => ['if-match', 'ETag', etag, '"0cc175b9c0f1b6a831c399e269772661"']],
] as const

test.each(conditions)('a deletion with %s takes that object and no other', async (_, of) => {
  const [header = '', , holds = '', fails = ''] = of(await put('one', 'hello'))
  expect(await deleteOne('one', { [header]: fails })).toMatchObject({ status: 412, code: 'PreconditionFailed' })
  expect(await exists('one')).toBe(true)
  expect((await deleteOne('one', { [header]: holds })).status).toBe(204)
  expect(await exists('one')).toBe(false)
  expect(await deleteOne('one', { [header]: holds })).toMatchObject({ status: 404, code: 'NoSuchKey' })
})

test.each(conditions)('of a list of deletions, one with %s takes that object and no other', async (_, of) => {
  const [, element, holds, fails] = of(await put('one', 'hello'))
  await put('two', 'x')
  const refused = await deleteListed(`<Key>one</Key><${element}>${fails}</${element}>`, '<Key>two</Key>')
  expect(refused.text).toMatch(
    /<Deleted><Key>two<\/Key><\/Deleted><Error><Key>one<\/Key><Code>PreconditionFailed<\/Code>/,
  )
  expect([await exists('one'), await exists('two')]).toEqual([true, false])
  const taken = await deleteListed(`<Key>one</Key><${element}>${holds}</${element}>`)
  expect(taken.text).toContain('<Deleted><Key>one</Key></Deleted></DeleteResult>')
  expect(await exists('one')).toBe(false)
})

test('every condition has to hold', async () => {
  const { etag, size } = await put('one', 'hello')
  const both = (n: number) => deleteOne('one', { 'if-match': etag, 'x-amz-if-match-size': String(n) })
  expect((await both(size + 1)).status).toBe(412)
  expect((await both(size)).status).toBe(204)
})

test.each([
  ['x-amz-if-match-size', 'five', 400],
  ['x-amz-if-match-last-modified-time', 'yesterday', 400],
  ['x-amz-if-match-last-modified-time', '2001-02-30T00:00:99Z', 400],
  ['x-amz-if-match-other', '1', 501],
  ['if-none-match', '*', 501],
  ['if-unmodified-since', 'Mon, 01 Jan 2001 00:00:00 GMT', 501],
])('a deletion with %s: %s is refused, and deletes nothing', async (header, value, status) => {
  await put('one', 'hello')
  expect((await deleteOne('one', { [header]: value })).status).toBe(status)
  expect(await exists('one')).toBe(true)
})

test.each([
  '<Size>five</Size>',
  '<Size/>',
  '<Size>5</Size><Size>6</Size>',
  '<LastModifiedTime>yesterday</LastModifiedTime>',
  '<SizeGreaterThan>9</SizeGreaterThan>',
])('a list of deletions with %s is refused, and deletes nothing', async (elements) => {
  await put('one', 'hello')
  expect((await deleteListed('<Key>one</Key>', `<Key>one</Key>${elements}`)).status).toBe(400)
  expect(await exists('one')).toBe(true)
})

/** Makes all racers wait for the locked object; the first one proceeds first. */
const race = (id: string, ...racers: (() => Promise<S3Answer>)[]): Promise<S3Answer[]> =>
  holding(platform.databaseUrl, (held) => held`select from objects where id = ${id} for update`, racers)
const replace = (key: string, body: string) => () =>
  sendSigned(s3, { method: 'PUT', path: `/s3/${Bucket}/${key}`, body }, ana)

test('what replaces an object while its deletions wait is spared by every one of them', async () => {
  const { etag, size, uploadedAt } = await put('raced', 'hello')
  const { id } = await liveObject('raced')
  platform.clock.advance(60_000)
  const [replaced, ...deleted] = await race(
    id,
    replace('raced', 'goodbye'),
    () => deleteOne('raced', { 'x-amz-if-match-size': String(size) }),
    () => deleteOne('raced', { 'x-amz-if-match-last-modified-time': uploadedAt.toISOString() }),
    () => deleteOne('raced', { 'if-match': etag }),
    () => deleteListed(`<Key>raced</Key><Size>${size}</Size>`),
    () => deleteListed(`<Key>raced</Key><LastModifiedTime>${uploadedAt.toUTCString()}</LastModifiedTime>`),
    () => deleteListed(`<Key>raced</Key><ETag>${etag}</ETag>`),
  )
  expect(replaced?.status).toBe(200)
  for (const { text } of deleted) expect(text).toContain('<Code>PreconditionFailed</Code>')
  expect((await liveObject('raced')).id).not.toBe(id)
})

test('what replaces an object and is the same to the condition is deleted, by one', async () => {
  const { etag } = await put('same', 'hello')
  const { id } = await liveObject('same')
  const deletions = [etag, '*', etag, '*', etag, '*'].map((ifMatch) => () => deleteOne('same', { 'if-match': ifMatch }))
  const [replaced, ...deleted] = await race(id, replace('same', 'hello'), ...deletions)
  expect(replaced?.status).toBe(200)
  expect(deleted.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([204, 404, 404, 404, 404, 404])
  expect(await exists('same')).toBe(false)
})

test('of deletions of one object, with conditions that hold, one takes it', async () => {
  const { size } = await put('held', 'hello')
  const { id } = await liveObject('held')
  const deletions = Array.from({ length: 6 }, () => () => deleteOne('held', { 'x-amz-if-match-size': String(size) }))
  const answers = await race(id, ...deletions)
  expect(answers.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([204, 404, 404, 404, 404, 404])
  expect(await exists('held')).toBe(false)
})
