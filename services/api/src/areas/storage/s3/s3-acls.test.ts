// engines: s3
import {
  CreateBucketCommand,
  GetBucketAclCommand,
  GetObjectAclCommand,
  PutBucketAclCommand,
  PutObjectAclCommand,
  PutObjectCommand,
} from '@aws-sdk/client-s3'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { bucketName, newS3User, type S3User, sendSigned, startS3, type TestS3 } from '../../../../test/s3.ts'

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

async function newBucket(keys: readonly string[] = [], ACL?: 'public-read'): Promise<string> {
  const Bucket = bucketName()
  await ana.client.send(new CreateBucketCommand({ Bucket, ...(ACL && { ACL }) }))
  for (const Key of keys) await ana.client.send(new PutObjectCommand({ Bucket, Key, Body: Key }))
  return Bucket
}
const send = (Bucket: string, query: string, method = 'GET', body = '', headers = {}) =>
  sendSigned(s3, { method, path: `/s3/${Bucket}${query}`, body, headers }, ana)

const grants = (inner: string) =>
  `<AccessControlPolicy xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Owner><ID>o</ID></Owner><AccessControlList>${inner}</AccessControlList></AccessControlPolicy>`
const grant = (grantee: string, permission: string) =>
  `<Grant><Grantee xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="x">${grantee}</Grantee><Permission>${permission}</Permission></Grant>`
const everyone = '<URI>http://acs.amazonaws.com/groups/global/AllUsers</URI>'

test.each(['', '/key'])('an ACL that says what is so is taken of %s, as a header and as grants', async (below) => {
  const own = await newBucket(['key'])
  const open = await newBucket(['key'], 'public-read')
  const owner = `<ID>${ana.owner.applicationId}</ID>`
  const ownGrant = grant(owner, 'FULL_CONTROL')
  const put = (Bucket: string, body: string, headers = {}) => send(Bucket, `${below}?acl`, 'PUT', body, headers)
  for (const [Bucket, canned, body] of [
    [own, 'private', grants(ownGrant)],
    [open, 'public-read', grants(grant(everyone, 'READ') + ownGrant)],
  ] as const) {
    const before = await send(Bucket, `${below}?acl`)
    expect(await put(Bucket, '', { 'x-amz-acl': canned })).toMatchObject({ status: 200, text: '' })
    expect(await put(Bucket, body)).toMatchObject({ status: 200 })
    // An ACL that was read may be written back.
    expect(await put(Bucket, before.text)).toMatchObject({ status: 200 })
    expect((await send(Bucket, `${below}?acl`)).text).toBe(before.text)
  }
  for (const [Bucket, body, headers, code] of [
    [own, '', { 'x-amz-acl': 'public-read' }, 'AccessControlListNotSupported'],
    [own, '', { 'x-amz-acl': 'nonsense' }, 'AccessControlListNotSupported'],
    // The bucket would stay public.
    [open, '', { 'x-amz-acl': 'private' }, 'AccessControlListNotSupported'],
    [open, grants(ownGrant), {}, 'AccessControlListNotSupported'],
    [own, grants(grant(everyone, 'READ') + ownGrant), {}, 'AccessControlListNotSupported'],
    [own, grants(grant(owner, 'READ')), {}, 'AccessControlListNotSupported'],
    [own, grants(ownGrant + ownGrant), {}, 'AccessControlListNotSupported'],
    [own, grants(''), {}, 'AccessControlListNotSupported'],
    [own, '', { 'x-amz-grant-read': `id="x"` }, 'AccessControlListNotSupported'],
    [own, '', {}, 'MissingSecurityHeader'],
    [own, grants(ownGrant), { 'x-amz-acl': 'private' }, 'UnexpectedContent'],
    [own, '<AccessControlPolicy/>', {}, 'MalformedACLError'],
    [own, grants('<Grant/>'), {}, 'MalformedACLError'],
    [own, 'nonsense', {}, 'MalformedACLError'],
    [own, grants(' '.repeat(65_536)), {}, 'MaxMessageLengthExceeded'],
  ] as const)
    expect(await put(Bucket, body, headers)).toMatchObject({ status: 400, code })
})

test('the SDK writes an ACL that it has read, and none for an object that is not there', async () => {
  const Bucket = await newBucket(['key'])
  const ofBucket = await ana.client.send(new GetBucketAclCommand({ Bucket }))
  await ana.client.send(
    new PutBucketAclCommand({ Bucket, AccessControlPolicy: { Owner: ofBucket.Owner, Grants: ofBucket.Grants } }),
  )
  const ofObject = await ana.client.send(new GetObjectAclCommand({ Bucket, Key: 'key' }))
  const AccessControlPolicy = { Owner: ofObject.Owner, Grants: ofObject.Grants }
  await ana.client.send(new PutObjectAclCommand({ Bucket, Key: 'key', AccessControlPolicy }))
  await ana.client.send(new PutBucketAclCommand({ Bucket, ACL: 'private' }))
  await expect(ana.client.send(new PutObjectAclCommand({ Bucket, Key: 'none', ACL: 'private' }))).rejects.toEqual(
    failure('NoSuchKey', 404),
  )
})
