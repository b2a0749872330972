// engines: s3
import { CreateBucketCommand, GetObjectCommand, ListObjectsV2Command, PutObjectCommand } from '@aws-sdk/client-s3'
import { getSignedUrl } from '@aws-sdk/s3-request-presigner'
import type { OperationName } from '@platform/s3-protocol/wire/operations'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { eq } from 'drizzle-orm'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  bucketName,
  newS3User,
  s3Client,
  type S3Request,
  type S3User,
  sendRaw,
  sendSigned,
  sha256,
  sign,
  type Signing,
  startS3,
  type TestS3,
} from '../../../../test/s3.ts'
import { newKey } from '../../../../test/scenario.ts'
import { apiKeys } from '../../credentials/api-keys/table.ts'

let platform: TestPlatform
let s3: TestS3
let ana: S3User
const Bucket = bucketName()
beforeAll(async () => {
  platform = await startPlatform()
  s3 = await startS3(platform)
  ana = await newS3User(s3)
  await ana.client.send(new CreateBucketCommand({ Bucket }))
  await ana.client.send(new PutObjectCommand({ Bucket, Key: 'key', Body: 'hello' }))
})
afterAll(async () => {
  await s3.close()
  await platform.close()
})

const read: S3Request = { path: `/s3/${Bucket}/key` }
const send = (options: S3Request, more: Partial<Signing> = {}) => sendSigned(s3, options, { key: ana.key, ...more })

test('an error is a document with code, message, resource and request id, and for HEAD there is none', async () => {
  const answer = await send({ path: `/s3/${Bucket}/none`, headers: { 'x-request-id': 'my-request' } })
  expect(answer).toMatchObject({
    status: 404,
    code: 'NoSuchKey',
    headers: { 'content-type': 'application/xml', 'x-amz-request-id': 'my-request' },
  })
  expect(answer.text).toBe(
    `<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>NoSuchKey</Code><Message>The key does not exist</Message><Key>none</Key><Resource>/s3/${Bucket}/none</Resource><RequestId>my-request</RequestId></Error>`,
  )
  const head = await send({ method: 'HEAD', path: `/s3/${Bucket}/none` })
  expect(head).toMatchObject({ status: 404, text: '', headers: { 'x-amz-request-id': expect.any(String) as string } })
})

test('the API answers below /s3 and nowhere beside it', async () => {
  const { host } = new URL(platform.apiUrl)
  const key = { ...ana, at: platform.clock.now() }
  expect(await sendRaw({ host }, sign({ host }, read, key))).toMatchObject({ status: 200, text: 'hello' })
  for (const path of ['/s3', '/s3/', '/s3?x']) expect((await sendRaw({ host }, { path })).code).toBe('AccessDenied')
  expect(await sendRaw({ host }, { path: '/s3x' })).toMatchObject({ status: 401, code: undefined })
})

test('a wrong secret is SignatureDoesNotMatch and says nothing of the right signature', async () => {
  const answer = await send(read, { key: { id: ana.key.id, secret: 'svc_secret_wrong' } })
  expect(answer).toMatchObject({ status: 403, code: 'SignatureDoesNotMatch' })
  expect(answer.text).not.toMatch(/[0-9a-f]{64}/)
  expect(answer.text).not.toContain('StringToSign')
})

test.each([
  ['of no key', '00000000-0000-7000-8000-000000000000'],
  ['that is no id', 'AKIAIOSFODNN7EXAMPLE'],
])('an access key id %s is InvalidAccessKeyId', async (_, id) => {
  expect(await send(read, { key: { id, secret: 'x' } })).toMatchObject({ status: 403, code: 'InvalidAccessKeyId' })
})

test('a request dated a day ago is refused, and one of 14 minutes ago is not', async () => {
  const before = (ms: number) => new Date(platform.clock.now().getTime() - ms)
  expect(await send(read, { at: before(86_400_000) })).toMatchObject({ status: 403, code: 'RequestTimeTooSkewed' })
  expect(await send(read, { at: before(-16 * 60_000) })).toMatchObject({ status: 403, code: 'RequestTimeTooSkewed' })
  expect(await send(read, { at: before(14 * 60_000) })).toMatchObject({ status: 200, text: 'hello' })
})

test('a Host that is not signed is refused, and so is an x-amz header that is not', async () => {
  expect(await send(read, { unsigned: ['host'] })).toMatchObject({ status: 403, code: 'AccessDenied' })
  const more = { ...read, headers: { 'x-amz-meta-a': '1' } }
  expect(await send(more, { unsigned: ['x-amz-meta-a'] })).toMatchObject({ status: 403, code: 'AccessDenied' })
})

test('of a body nothing is said of, the signature says nothing: it is refused; without one there is nothing to say', async () => {
  const unsaid = (options: S3Request) => {
    const { headers = {}, ...signed } = sign(s3, options, {
      key: ana.key,
      at: platform.clock.now(),
      payloadHash: sha256(''),
      unsigned: ['x-amz-content-sha256'],
    })
    const { 'x-amz-content-sha256': _, ...rest } = headers
    return sendRaw(s3, { ...signed, headers: rest })
  }
  expect((await unsaid(read)).status).toBe(200)
  expect(await unsaid({ method: 'PUT', path: `/s3/${Bucket}/unsaid`, body: 'x' })).toMatchObject({
    status: 400,
    code: 'InvalidRequest',
  })
})

test('a signed request that was changed on the way does not match', async () => {
  const signed = sign(
    s3,
    { method: 'PUT', path: `/s3/${Bucket}/a`, body: 'x' },
    { key: ana.key, at: platform.clock.now() },
  )
  for (const change of [{ path: `/s3/${Bucket}/b` }, { method: 'POST' }, { path: `/s3/${Bucket}/a?x=1` }])
    expect(await sendRaw(s3, { ...signed, ...change })).toMatchObject({ status: 403, code: 'SignatureDoesNotMatch' })
  const headers = { ...signed.headers, 'x-amz-date': '20200101T000000Z' }
  expect((await sendRaw(s3, { ...signed, headers })).status).toBe(400)
})

test('what was signed for another server does not hold here, and for the public URL it does', async () => {
  expect(await send(read, { host: 'elsewhere.example.com' })).toMatchObject({ code: 'SignatureDoesNotMatch' })
  expect((await send(read, { host: new URL(platform.apiUrl).host })).status).toBe(200)
  const forwarded = { ...read, headers: { 'x-forwarded-host': 's3.example.com' } }
  expect((await send(forwarded, { host: 's3.example.com' })).status).toBe(200)
})

test('a presigned URL reads and writes without headers, and no longer than it says', async () => {
  const put = await getSignedUrl(ana.client, new PutObjectCommand({ Bucket, Key: 'presigned', Metadata: { a: 'b' } }), {
    expiresIn: 60,
  })
  expect((await fetch(put, { method: 'PUT', body: 'by url' })).status).toBe(200)
  const url = await getSignedUrl(ana.client, new GetObjectCommand({ Bucket, Key: 'presigned' }), { expiresIn: 60 })
  const answer = await fetch(url)
  expect([answer.status, await answer.text(), answer.headers.get('x-amz-meta-a')]).toEqual([200, 'by url', 'b'])
  expect((await fetch(url.replace('presigned', 'key'))).status).toBe(403)

  platform.clock.advance(61_000)
  const late = await fetch(url)
  expect(late.status).toBe(403)
  expect(await late.text()).toContain('<Code>AccessDenied</Code><Message>Request has expired</Message>')
})

test('a URL presigned for more than seven days is refused', async () => {
  const url = new URL(await getSignedUrl(ana.client, new GetObjectCommand({ Bucket, Key: 'key' })))
  url.searchParams.set('X-Amz-Expires', '604801')
  const answer = await fetch(url)
  expect(answer.status).toBe(400)
  expect(await answer.text()).toContain('<Code>AuthorizationQueryParametersError</Code>')
})

test.each([
  ['a URL', { path: `/s3/${Bucket}/key?AWSAccessKeyId=a&Signature=b&Expires=1` }],
  ['a header', { path: `/s3/${Bucket}/key`, headers: { authorization: 'AWS a:b' } }],
])('signature version 2 in %s is refused by a message that says so', async (_, options) => {
  const answer = await sendRaw(s3, options)
  expect(answer).toMatchObject({ status: 400, code: 'InvalidRequest' })
  expect(answer.text).toContain('Signature version 2 is not supported')
})

const write = (Key: string): S3Request => ({ method: 'PUT', path: `/s3/${Bucket}/${Key}`, body: 'x' })
const upload = `uploadId=00000000-0000-7000-8000-000000000000`
const copying = { 'x-amz-copy-source': `/${Bucket}/key` }
const tagging = '<Tagging><TagSet/></Tagging>'
const cors =
  '<CORSConfiguration><CORSRule><AllowedOrigin>*</AllowedOrigin><AllowedMethod>GET</AllowedMethod></CORSRule></CORSConfiguration>'
const of = (subresource: string, more: Omit<S3Request, 'path'> = {}): S3Request => ({
  path: `/s3/${Bucket}?${subresource}`,
  ...more,
})
const acl = { method: 'PUT', headers: { 'x-amz-acl': 'private' } }

/** A request for every operation, and the scope that it needs. Not for forms, which are not signed in headers. */
const guarded: Record<Exclude<OperationName, 'PostObject'>, [needed: string, S3Request]> = {
  ListBuckets: ['read', { path: '/s3/' }],
  HeadBucket: ['read', { method: 'HEAD', path: `/s3/${Bucket}` }],
  GetBucketLocation: ['read', { path: `/s3/${Bucket}?location` }],
  GetBucketVersioning: ['read', { path: `/s3/${Bucket}?versioning` }],
  GetBucketAcl: ['read', { path: `/s3/${Bucket}?acl` }],
  PutBucketAcl: ['write', of('acl', acl)],
  GetBucketCors: ['read', of('cors')],
  PutBucketCors: ['write', of('cors', { method: 'PUT', body: cors })],
  DeleteBucketCors: ['write', of('cors', { method: 'DELETE' })],
  GetBucketTagging: ['read', of('tagging')],
  PutBucketTagging: ['write', of('tagging', { method: 'PUT', body: tagging })],
  DeleteBucketTagging: ['write', of('tagging', { method: 'DELETE' })],
  GetBucketAccelerateConfiguration: ['read', of('accelerate')],
  GetBucketEncryption: ['read', of('encryption')],
  DeleteBucketEncryption: ['write', of('encryption', { method: 'DELETE' })],
  GetBucketLifecycleConfiguration: ['read', of('lifecycle')],
  DeleteBucketLifecycle: ['write', of('lifecycle', { method: 'DELETE' })],
  GetBucketLogging: ['read', of('logging')],
  GetBucketNotificationConfiguration: ['read', of('notification')],
  GetBucketOwnershipControls: ['read', of('ownershipControls')],
  GetBucketPolicy: ['read', of('policy')],
  DeleteBucketPolicy: ['write', of('policy', { method: 'DELETE' })],
  GetBucketPolicyStatus: ['read', of('policyStatus')],
  GetBucketReplication: ['read', of('replication')],
  DeleteBucketReplication: ['write', of('replication', { method: 'DELETE' })],
  GetBucketRequestPayment: ['read', of('requestPayment')],
  GetBucketWebsite: ['read', of('website')],
  DeleteBucketWebsite: ['write', of('website', { method: 'DELETE' })],
  GetObjectLockConfiguration: ['read', of('object-lock')],
  GetPublicAccessBlock: ['read', of('publicAccessBlock')],
  DeletePublicAccessBlock: ['write', of('publicAccessBlock', { method: 'DELETE' })],
  ListObjectVersions: ['read', of('versions')],
  ListMultipartUploads: ['read', { path: `/s3/${Bucket}?uploads` }],
  ListObjectsV2: ['read', { path: `/s3/${Bucket}?list-type=2` }],
  ListObjects: ['read', { path: `/s3/${Bucket}` }],
  GetObjectAcl: ['read', { path: `/s3/${Bucket}/key?acl` }],
  PutObjectAcl: ['write', { path: `/s3/${Bucket}/key?acl`, ...acl }],
  GetObjectLegalHold: ['read', { path: `/s3/${Bucket}/key?legal-hold` }],
  GetObjectRetention: ['read', { path: `/s3/${Bucket}/key?retention` }],
  GetObjectAttributes: [
    'read',
    { path: `/s3/${Bucket}/key?attributes`, headers: { 'x-amz-object-attributes': 'ETag' } },
  ],
  GetObjectTagging: ['read', { path: `/s3/${Bucket}/key?tagging` }],
  ListParts: ['read', { path: `/s3/${Bucket}/m?${upload}` }],
  GetObject: ['read', read],
  HeadObject: ['read', { ...read, method: 'HEAD' }],
  CreateBucket: ['write', { method: 'PUT', path: `/s3/${bucketName()}` }],
  PutObject: ['write', write('scoped')],
  CopyObject: ['write', { ...write('scoped-2'), body: '', headers: copying }],
  PutObjectTagging: ['write', { method: 'PUT', path: `/s3/${Bucket}/key?tagging`, body: tagging }],
  DeleteObjectTagging: ['write', { method: 'DELETE', path: `/s3/${Bucket}/key?tagging` }],
  CreateMultipartUpload: ['write', { method: 'POST', path: `/s3/${Bucket}/m?uploads` }],
  UploadPart: ['write', write(`m?partNumber=1&${upload}`)],
  UploadPartCopy: ['write', { ...write(`m?partNumber=1&${upload}`), body: '', headers: copying }],
  CompleteMultipartUpload: ['write', { method: 'POST', path: `/s3/${Bucket}/m?${upload}`, body: '<x/>' }],
  AbortMultipartUpload: ['write', { method: 'DELETE', path: `/s3/${Bucket}/m?${upload}` }],
  DeleteObject: ['delete', { method: 'DELETE', path: `/s3/${Bucket}/nothing` }],
  DeleteObjects: [
    'delete',
    { method: 'POST', path: `/s3/${Bucket}?delete`, body: '<Delete><Object><Key>n</Key></Object></Delete>' },
  ],
  DeleteBucket: ['delete', { method: 'DELETE', path: `/s3/${bucketName()}` }],
}

test.each(Object.entries(guarded))(
  '%s needs its scope, and a :write stands for a :read only (D70)',
  async (_, [needed, options]) => {
    for (const held of ['read', 'write', 'delete']) {
      const key = await newKey(platform, ana.owner, [`network:storage:${held}`])
      const answer = await send(options, { key })
      const isEnough = held === needed || (held === 'write' && needed === 'read')
      if (isEnough) expect([200, 204, 400, 404]).toContain(answer.status)
      else expect(answer.status).toBe(403)
      if (!isEnough && options.method !== 'HEAD') expect(answer.text).toContain(`network:storage:${needed}`)
    }
  },
)

const { ListBuckets: _ListBuckets, CreateBucket: _CreateBucket, ...inBucket } = guarded

test.each(Object.entries(inBucket))(
  '%s is denied without a credential, and finds no bucket of another organization, nor a missing one',
  async (_, [, options]) => {
    const eve = await newS3User(s3)
    const isHead = options.method === 'HEAD'
    expect(await sendRaw(s3, options)).toMatchObject({ status: 403, ...(!isHead && { code: 'AccessDenied' }) })
    const missing = { ...options, path: options.path.replace(/^\/s3\/[^/?]+/, `/s3/${bucketName()}`) }
    const answers = [await send(options, { key: eve.key }), await send(missing), await send(missing, { key: eve.key })]
    for (const answer of answers)
      expect(answer).toMatchObject({ status: 404, ...(!isHead && { code: 'NoSuchBucket' }) })
  },
)

test('a key without a storage scope cannot sign', async () => {
  const key = await newKey(platform, ana.owner, ['network:env_vars:read'])
  expect(await send(read, { key })).toMatchObject({ status: 403, code: 'InvalidAccessKeyId' })
})

test('a deleted key stops at the next request', async () => {
  const key = await newKey(platform, ana.owner, ['network:storage:read'])
  expect((await send(read, { key })).status).toBe(200)
  await platform.call(ana.owner.token, `DELETE /api-keys/${key.id}`)
  expect(await send(read, { key })).toMatchObject({ status: 403, code: 'InvalidAccessKeyId' })
})

test('an expired key stops at the next request, and only whoever has its secret is told why', async () => {
  const key = await newKey(platform, ana.owner, ['network:storage:read'])
  expect((await send(read, { key })).status).toBe(200)
  await platform.api.db.update(apiKeys).set({ expiresAt: platform.clock.now() }).where(eq(apiKeys.id, key.id))
  const answer = await send(read, { key })
  expect(answer).toMatchObject({ status: 403, code: 'InvalidAccessKeyId' })
  expect(answer.text).toContain('has expired')
  expect(await send(read, { key: { ...key, secret: 'wrong' } })).toMatchObject({ code: 'SignatureDoesNotMatch' })
})

test('another application’s bucket does not exist', async () => {
  const eve = await newS3User(s3)
  for (const options of [
    read,
    { path: `/s3/${Bucket}?list-type=2` },
    write('stolen'),
    { method: 'DELETE', path: `/s3/${Bucket}` },
  ])
    expect(await send(options, { key: eve.key })).toMatchObject({ status: 404, code: 'NoSuchBucket' })
  const copy = { method: 'PUT', path: `/s3/${bucketName()}/x`, headers: { 'x-amz-copy-source': `/${Bucket}/key` } }
  expect(await send(copy, { key: eve.key })).toMatchObject({ status: 404, code: 'NoSuchBucket' })
  const own = bucketName()
  await eve.client.send(new CreateBucketCommand({ Bucket: own }))
  expect(await send({ ...copy, path: `/s3/${own}/x` }, { key: eve.key })).toMatchObject({ code: 'NoSuchBucket' })
})

test('a token of a key acts for its application, within its scopes; a person’s token does not (D44)', async () => {
  const bearer = (token: string, options: S3Request) =>
    sendRaw(s3, { ...options, headers: { ...options.headers, authorization: `Bearer ${token}` } })
  expect(await bearer(ana.key.token, read)).toMatchObject({ status: 200, text: 'hello' })
  expect((await bearer(ana.key.token, write('by-bearer'))).status).toBe(200)
  const wrong = { ...write('by-bearer'), headers: { 'x-amz-content-sha256': sha256('other') } }
  expect(await bearer(ana.key.token, wrong)).toMatchObject({ status: 400, code: 'XAmzContentSHA256Mismatch' })
  const reader = await newKey(platform, ana.owner, ['network:storage:read'])
  expect(await bearer(reader.token, write('by-bearer'))).toMatchObject({ status: 403, code: 'AccessDenied' })
  expect(await bearer(ana.owner.token, read)).toMatchObject({ status: 403, code: 'AccessDenied' })
  expect(await bearer('nonsense', read)).toMatchObject({ status: 403, code: 'AccessDenied' })
})

test('anyone reads objects of a public bucket by its slug, and nothing else', async () => {
  const name = bucketName()
  await ana.client.send(new CreateBucketCommand({ Bucket: name, ACL: 'public-read' }))
  await ana.client.send(new PutObjectCommand({ Bucket: name, Key: 'open', Body: 'for all' }))
  const row = await platform.call(
    ana.owner.token,
    `GET /applications/${ana.owner.applicationId}/storage/buckets/${name}`,
  )
  const { slug } = row.body as { slug: string }
  expect(await sendRaw(s3, { path: `/s3/${slug}/open` })).toMatchObject({ status: 200, text: 'for all' })
  expect(await sendRaw(s3, { path: `/s3/${slug}/open`, method: 'HEAD' })).toMatchObject({ status: 200 })
  expect(await sendRaw(s3, { path: `/s3/${slug}/none` })).toMatchObject({ status: 404, code: 'NoSuchKey' })
  for (const options of [
    { path: `/s3/${slug}` },
    { path: `/s3/${slug}?uploads` },
    { path: `/s3/${slug}/open`, method: 'PUT', body: 'x' },
    { path: `/s3/${slug}/open`, method: 'DELETE' },
    { path: `/s3/${slug}/open?tagging` },
    { path: '/s3/' },
    { path: '/s3/no-such-bucket/open' },
    read,
  ])
    expect(await sendRaw(s3, options)).toMatchObject({ status: 403, code: 'AccessDenied' })
  expect(await sendRaw(s3, { path: `/s3/${slug}/open?response-content-type=text/html` })).toMatchObject({
    status: 400,
    code: 'InvalidRequest',
  })
})

test('the address counts on a budget of its own, and a full one is SlowDown (D44)', async () => {
  const from = { 'x-forwarded-for': '203.0.113.77' }
  await platform.api.limiter.hit(Array.from({ length: 24_000 }, () => 'objects:203.0.113.77'))
  const answer = await send({ ...read, headers: from })
  expect(answer).toMatchObject({ status: 429, code: 'SlowDown', headers: { 'retry-after': '60' } })
  for (const wrong of [{ path: '/s3/b/%00' }, { path: '/s3/b/k', headers: { authorization: 'AWS4-HMAC-SHA256 x' } }])
    expect((await sendRaw(s3, { ...wrong, headers: { ...wrong.headers, ...from } })).code).toBe('SlowDown')
})

test('a request may name the owner it expects', async () => {
  const owned = (owner: string) => send({ ...read, headers: { 'x-amz-expected-bucket-owner': owner } })
  expect((await owned(ana.owner.applicationId)).status).toBe(200)
  expect(await owned('123456789012')).toMatchObject({ status: 403, code: 'AccessDenied' })
})

test.each([
  ['latin-1 that was signed as UTF-8', 'Hello World\u00e9', 'Hello World\u00e9'],
  ['UTF-8', 'Größe 🦊', Buffer.from('Größe 🦊').toString('latin1')],
  ['UTF-8 that ends with the byte of a no-break space', 'là, voilà', Buffer.from('là, voilà').toString('latin1')],
])('metadata in %s is taken, and comes back as the bytes that were sent', async (_, signed, sent) => {
  const path = `/s3/${Bucket}/described`
  const put = (value: string) => {
    const signing = { key: ana.key, at: platform.clock.now() }
    // Not a string, which Node would join to the headers and send as UTF-8 with them.
    const body = Buffer.from('x')
    const options = sign(s3, { method: 'PUT', path, body, headers: { 'x-amz-meta-a': signed } }, signing)
    return sendRaw(s3, { ...options, headers: { ...options.headers, 'x-amz-meta-a': value } })
  }
  expect((await put(sent)).status).toBe(200)
  expect((await send({ path })).headers['x-amz-meta-a']).toBe(sent)
  const copy = { 'x-amz-copy-source': `/${Bucket}/described` }
  expect((await send({ method: 'PUT', path: `${path}-copy`, headers: copy })).status).toBe(200)
  expect((await send({ path: `${path}-copy` })).headers['x-amz-meta-a']).toBe(sent)
  for (const other of [`${sent}\u00e9`, sent.slice(0, -1), 'Hello Worlde'])
    expect(await put(other)).toMatchObject({ status: 403, code: 'SignatureDoesNotMatch' })
})

test('the SDK reads our codes as its own', async () => {
  const client = s3Client(s3, { id: ana.key.id, secret: 'wrong' })
  await expect(client.send(new ListObjectsV2Command({ Bucket }))).rejects.toMatchObject({
    name: 'SignatureDoesNotMatch',
  })
  await expect(ana.client.send(new GetObjectCommand({ Bucket, Key: 'none' }))).rejects.toMatchObject({
    name: 'NoSuchKey',
  })
})
