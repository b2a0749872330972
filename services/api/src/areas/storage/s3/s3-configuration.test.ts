// engines: postgres, s3
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  CompleteMultipartUploadCommand,
  CreateBucketCommand,
  CreateMultipartUploadCommand,
  DeleteBucketCommand,
  DeleteBucketCorsCommand,
  DeleteBucketTaggingCommand,
  GetBucketAccelerateConfigurationCommand,
  GetBucketCorsCommand,
  GetBucketLoggingCommand,
  GetBucketNotificationConfigurationCommand,
  GetBucketOwnershipControlsCommand,
  GetBucketRequestPaymentCommand,
  GetBucketTaggingCommand,
  PutBucketCorsCommand,
  PutBucketTaggingCommand,
  PutObjectCommand,
  UploadPartCommand,
} from '@aws-sdk/client-s3'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { holding } from '@platform/testkit/holding'
import { eq } from 'drizzle-orm'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { bucketName, newS3User, type S3User, sendRaw, sendSigned, startS3, type TestS3 } from '../../../../test/s3.ts'
import { buckets, objects } from '../objects/table.ts'
import { bucketConfigurations } from './table.ts'

let platform: TestPlatform
let s3: TestS3
let ana: S3User
beforeAll(async () => {
  platform = await startPlatform()
  s3 = await startS3(platform)
  ana = await newS3User(s3)
})
afterAll(async () => {
  await s3.close()
  await platform.close()
})

const failure = (name: string, status: number) =>
  expect.objectContaining({ name, $metadata: expect.objectContaining({ httpStatusCode: status }) as object }) as object

async function newBucket(keys: readonly string[] = []): Promise<string> {
  const Bucket = bucketName()
  await ana.client.send(new CreateBucketCommand({ Bucket }))
  for (const Key of keys) await ana.client.send(new PutObjectCommand({ Bucket, Key, Body: Key }))
  return Bucket
}
const send = (Bucket: string, query: string, method = 'GET', body = '') =>
  sendSigned(s3, { method, path: `/s3/${Bucket}${query}`, body }, ana)

const MIB = 1_024 ** 2

test.each([
  ['?encryption', 404, 'ServerSideEncryptionConfigurationNotFoundError'],
  ['?lifecycle', 404, 'NoSuchLifecycleConfiguration'],
  ['?policy', 404, 'NoSuchBucketPolicy'],
  ['?policyStatus', 404, 'NoSuchBucketPolicy'],
  ['?cors', 404, 'NoSuchCORSConfiguration'],
  ['?tagging', 404, 'NoSuchTagSet'],
  ['?website', 404, 'NoSuchWebsiteConfiguration'],
  ['?replication', 404, 'ReplicationConfigurationNotFoundError'],
  ['?publicAccessBlock', 404, 'NoSuchPublicAccessBlockConfiguration'],
  ['?object-lock', 404, 'ObjectLockConfigurationNotFoundError'],
  ['/key?retention', 400, 'InvalidRequest'],
  ['/key?legal-hold', 400, 'InvalidRequest'],
])('of a bucket where nothing was set, %s is %s %s', async (query, status, code) => {
  const answer = await send(await newBucket(['key']), query)
  expect(answer).toMatchObject({ status, code })
  expect(answer.text).toContain('<BucketName>bucket-')
})

const page = readFileSync(join(import.meta.dirname, '../../../../../../docs/storage.md'), 'utf8')
/** The requests of the table of what is not offered, with their answers. */
const absent = [...page.matchAll(/^\|[^|]+\| (`[A-Z]+ \/[^|]+)\| (\d{3}) `(\w+)` \|$/gm)].flatMap(
  ([, requests = '', status, code]) =>
    [...requests.matchAll(/`([A-Z]+) \/(new-)?bucket([^`]*)`(?: with `([\w-]+): ([^`]+)`)?/g)].map(
      ([text, method = '', isNew, rest = '', header, value = '']) => ({
        text,
        method,
        isNew: isNew !== undefined,
        rest,
        headers: header === undefined ? {} : { [header]: value },
        answer: { status: Number(status), code },
      }),
    ),
)
test('each request that docs/storage.md lists as not offered is answered as it says, and changes nothing', async () => {
  const Bucket = await newBucket(['key'])
  const answers = await Promise.all(
    absent.map(async ({ text, method, isNew, rest, headers }) => {
      const path = `/s3/${isNew ? bucketName() : Bucket}${rest}`
      const isSigned = !('authorization' in headers) && !rest.includes('Signature=')
      const request = { method, path, headers, ...(method !== 'GET' && { body: '' }) }
      const { status, code } = await (isSigned ? sendSigned(s3, request, ana) : sendRaw(s3, request))
      return { text, answer: { status, code } }
    }),
  )
  expect(answers).toEqual(absent.map(({ text, answer }) => ({ text, answer })))
  expect(absent.length).toBeGreaterThan(50)
  expect(await send(Bucket, '/key')).toMatchObject({ status: 200, text: 'key' })
})

test.each([
  '?encryption',
  '?lifecycle',
  '?policy',
  '?cors',
  '?tagging',
  '?website',
  '?replication',
  '?publicAccessBlock',
])('deleting %s where nothing was set changes nothing', async (query) => {
  const Bucket = await newBucket()
  expect(await send(Bucket, query, 'DELETE')).toMatchObject({ status: 204, text: '' })
  expect((await send(Bucket, query)).status).toBe(404)
})

test('what is the same for all buckets is read as S3 writes it where nothing was set', async () => {
  const Bucket = await newBucket()
  expect((await ana.client.send(new GetBucketLoggingCommand({ Bucket }))).LoggingEnabled).toBeUndefined()
  expect((await ana.client.send(new GetBucketAccelerateConfigurationCommand({ Bucket }))).Status).toBeUndefined()
  expect((await ana.client.send(new GetBucketRequestPaymentCommand({ Bucket }))).Payer).toBe('BucketOwner')
  const { OwnershipControls } = await ana.client.send(new GetBucketOwnershipControlsCommand({ Bucket }))
  expect(OwnershipControls?.Rules).toEqual([{ ObjectOwnership: 'BucketOwnerEnforced' }])
  const { $metadata: _, ...notified } = await ana.client.send(new GetBucketNotificationConfigurationCommand({ Bucket }))
  expect(Object.values(notified).filter((value) => value !== undefined)).toEqual([])
})

test('tags of a bucket are set, replaced as a whole, and deleted', async () => {
  const Bucket = await newBucket()
  const put = (TagSet: { Key: string; Value: string }[]) =>
    ana.client.send(new PutBucketTaggingCommand({ Bucket, Tagging: { TagSet } }))
  const get = async () => (await ana.client.send(new GetBucketTaggingCommand({ Bucket }))).TagSet
  const two = [
    { Key: 'team', Value: 'a & b' },
    { Key: 'ü', Value: '' },
  ]
  await put(two)
  expect(await get()).toEqual(two)
  const most = Array.from({ length: 50 }, (_, i) => ({ Key: `${i}`.padEnd(128, 'k'), Value: '"'.repeat(256) }))
  await put(most)
  expect(await get()).toEqual(most)
  await put([{ Key: 'only', Value: 'one' }])
  expect(await get()).toEqual([{ Key: 'only', Value: 'one' }])
  await ana.client.send(new DeleteBucketTaggingCommand({ Bucket }))
  await expect(get()).rejects.toEqual(failure('NoSuchTagSet', 404))
  await put([{ Key: 'a', Value: 'b' }])
  await put([])
  await expect(get()).rejects.toEqual(failure('NoSuchTagSet', 404))
})

const tag = (key: string, value = 'v') => `<Tag><Key>${key}</Key><Value>${value}</Value></Tag>`
const tags = (inner: string) => `<Tagging><TagSet>${inner}</TagSet></Tagging>`
test('tags come back in the order in which they were given, and those of an earlier release in one of its own', async () => {
  const Bucket = await newBucket()
  const given = ['z=1', '10=2', 'name=3', '2=4', 'b=5']
  const document = `<Tagging><TagSet>${given.map((pair) => tag(...(pair.split('=') as [string, string]))).join('')}</TagSet></Tagging>`
  const read = async (path: string) =>
    [...(await send(Bucket, `${path}?tagging`)).text.matchAll(/<Key>(.*?)<\/Key><Value>(.*?)<\/Value>/g)].map(
      ([, key, value]) => `${key}=${value}`,
    )
  const put = async (path: string, headers: Record<string, string>) =>
    expect(await sendSigned(s3, { method: 'PUT', path: `/s3/${Bucket}${path}`, headers }, ana)).toMatchObject({
      status: 200,
    })
  await put('/by-header', { 'x-amz-tagging': given.join('&') })
  await put('/copy', { 'x-amz-copy-source': `/${Bucket}/by-header` })
  await put('/by-document', {})
  for (const path of ['/by-document', '']) await send(Bucket, `${path}?tagging`, 'PUT', document)
  const { UploadId } = await ana.client.send(
    new CreateMultipartUploadCommand({ Bucket, Key: 'in-parts', Tagging: given.join('&') }),
  )
  const { ETag } = await ana.client.send(
    new UploadPartCommand({ Bucket, Key: 'in-parts', UploadId, PartNumber: 1, Body: 'x' }),
  )
  const MultipartUpload = { Parts: [{ PartNumber: 1, ETag }] }
  await ana.client.send(new CompleteMultipartUploadCommand({ Bucket, Key: 'in-parts', UploadId, MultipartUpload }))
  for (const path of ['/by-header', '/copy', '/by-document', '/in-parts', '']) expect(await read(path)).toEqual(given)
  expect((await send(Bucket, '/by-header')).headers['x-amz-tagging-count']).toBe('5')

  const { db } = platform.api
  const [bucket] = await db.select({ id: buckets.id }).from(buckets).where(eq(buckets.name, Bucket))
  const earlier = { bb: '2', a: '1' }
  await db
    .update(objects)
    .set({ tags: earlier })
    .where(eq(objects.bucketId, bucket?.id ?? ''))
  await db
    .update(bucketConfigurations)
    .set({ tags: earlier })
    .where(eq(bucketConfigurations.bucketId, bucket?.id ?? ''))
  for (const path of ['/by-header', '']) expect((await read(path)).toSorted()).toEqual(['a=1', 'bb=2'])
  expect((await send(Bucket, '/by-header')).headers['x-amz-tagging-count']).toBe('2')
})

test.each([
  ['a key twice', tags(tag('a') + tag('a')), 'InvalidTag'],
  ['51 tags', tags(Array.from({ length: 51 }, (_, i) => tag(`k${i}`)).join('')), 'InvalidTag'],
  ['a key of 129 characters', tags(tag('k'.repeat(129))), 'InvalidTag'],
  ['a value of 257 characters', tags(tag('k', 'v'.repeat(257))), 'InvalidTag'],
  ['an empty key', tags(tag('')), 'InvalidTag'],
  ['no set', '<Tagging/>', 'MalformedXML'],
  ['no XML', 'tags', 'MalformedXML'],
  ['nothing', '', 'MalformedXML'],
  ['a mebibyte', tags(' '.repeat(MIB)), 'MaxMessageLengthExceeded'],
])('tags of a bucket with %s are refused, and the earlier ones stay', async (_, body, code) => {
  const Bucket = await newBucket()
  await send(Bucket, '?tagging', 'PUT', tags(tag('kept')))
  expect(await send(Bucket, '?tagging', 'PUT', body)).toMatchObject({ status: 400, code })
  expect((await send(Bucket, '?tagging')).text).toContain('<Key>kept</Key>')
})

test('CORS rules are set, replaced, read back and deleted, and tags stay as they are', async () => {
  const Bucket = await newBucket()
  const rules = [
    {
      ID: 'uploads',
      AllowedOrigins: ['https://app.example', 'http://localhost:*'],
      AllowedMethods: ['PUT', 'POST'],
      AllowedHeaders: ['*'],
      ExposeHeaders: ['ETag'],
      MaxAgeSeconds: 3_600,
    },
    { AllowedOrigins: ['*'], AllowedMethods: ['GET'] },
  ]
  await send(Bucket, '?tagging', 'PUT', tags(tag('kept')))
  for (const CORSRules of [rules, rules.slice(1)]) {
    await ana.client.send(new PutBucketCorsCommand({ Bucket, CORSConfiguration: { CORSRules } }))
    expect((await ana.client.send(new GetBucketCorsCommand({ Bucket }))).CORSRules).toEqual(CORSRules)
  }
  await ana.client.send(new DeleteBucketCorsCommand({ Bucket }))
  await expect(ana.client.send(new GetBucketCorsCommand({ Bucket }))).rejects.toEqual(
    failure('NoSuchCORSConfiguration', 404),
  )
  expect((await send(Bucket, '?tagging')).text).toContain('<Key>kept</Key>')
})

const rule = (origin: string) =>
  `<CORSRule><AllowedOrigin>${origin}</AllowedOrigin><AllowedMethod>GET</AllowedMethod></CORSRule>`
const cors = (inner: string) => `<CORSConfiguration>${inner}</CORSConfiguration>`
test.each([
  ['no rule', cors(''), 'MalformedXML'],
  ['no XML', 'rules', 'MalformedXML'],
  ['nothing', '', 'MalformedXML'],
  ['101 rules', cors(rule('*').repeat(101)), 'InvalidRequest'],
  ['two wildcards', cors(rule('*.*')), 'InvalidRequest'],
  ['more than 64 KiB', cors(rule('*') + ' '.repeat(65_536)), 'MaxMessageLengthExceeded'],
])('CORS rules with %s are refused, and the earlier ones stay', async (_, body, code) => {
  const Bucket = await newBucket()
  expect((await send(Bucket, '?cors', 'PUT', cors(rule('https://kept.example')))).status).toBe(200)
  expect(await send(Bucket, '?cors', 'PUT', body)).toMatchObject({ status: 400, code })
  expect((await send(Bucket, '?cors')).text).toContain('https://kept.example')
})

test('a configuration goes with its bucket: a new one of the same name has none', async () => {
  const Bucket = await newBucket()
  await send(Bucket, '?tagging', 'PUT', tags(tag('a')))
  await ana.client.send(new DeleteBucketCommand({ Bucket }))
  expect(await send(Bucket, '?tagging')).toMatchObject({ status: 404, code: 'NoSuchBucket' })
  await ana.client.send(new CreateBucketCommand({ Bucket }))
  expect(await send(Bucket, '?tagging')).toMatchObject({ status: 404, code: 'NoSuchTagSet' })
})

test('a bucket that is deleted meanwhile is not configured', async () => {
  const Bucket = await newBucket()
  const [row] = await platform.api.db.select().from(buckets).where(eq(buckets.name, Bucket))
  const bucketId = row?.id ?? ''
  const [answer] = await holding(
    platform.databaseUrl,
    (sql) => sql`update buckets set name = ${`~${bucketId}`}, deleted_at = now() where id = ${bucketId}`,
    [() => send(Bucket, '?tagging', 'PUT', tags(tag('late')))],
  )
  expect(answer).toMatchObject({ status: 404, code: 'NoSuchBucket' })
  expect(
    await platform.api.db.select().from(bucketConfigurations).where(eq(bucketConfigurations.bucketId, bucketId)),
  ).toEqual([])
})
