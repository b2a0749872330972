import {
  CreateBucketCommand,
  GetBucketAccelerateConfigurationCommand,
  GetBucketLoggingCommand,
  GetBucketNotificationConfigurationCommand,
  GetBucketOwnershipControlsCommand,
  GetBucketRequestPaymentCommand,
  PutObjectCommand,
} from '@aws-sdk/client-s3'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { bucketName, newS3User, type S3User, sendSigned, startS3, type TestS3 } from '../../../test/s3.ts'

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

async function newBucket(keys: readonly string[] = []): Promise<string> {
  const Bucket = bucketName()
  await ana.client.send(new CreateBucketCommand({ Bucket }))
  for (const Key of keys) await ana.client.send(new PutObjectCommand({ Bucket, Key, Body: Key }))
  return Bucket
}
const send = (Bucket: string, query: string, method = 'GET', body = '') =>
  sendSigned(s3, { method, path: `/s3/${Bucket}${query}`, body }, ana)

test.each([
  ['?encryption', 404, 'ServerSideEncryptionConfigurationNotFoundError'],
  ['?lifecycle', 404, 'NoSuchLifecycleConfiguration'],
  ['?policy', 404, 'NoSuchBucketPolicy'],
  ['?policyStatus', 404, 'NoSuchBucketPolicy'],
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

test.each(['?encryption', '?lifecycle', '?policy', '?website', '?replication', '?publicAccessBlock'])(
  'deleting %s where nothing was set changes nothing',
  async (query) => {
    const Bucket = await newBucket()
    expect(await send(Bucket, query, 'DELETE')).toMatchObject({ status: 204, text: '' })
    expect((await send(Bucket, query)).status).toBe(404)
  },
)

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
