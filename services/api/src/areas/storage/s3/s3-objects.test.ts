// engines: s3
import { randomBytes } from 'node:crypto'
import {
  CopyObjectCommand,
  CreateBucketCommand,
  DeleteObjectCommand,
  DeleteObjectTaggingCommand,
  GetObjectAclCommand,
  GetObjectAttributesCommand,
  GetObjectCommand,
  GetObjectTaggingCommand,
  HeadObjectCommand,
  PutObjectCommand,
  PutObjectTaggingCommand,
} from '@aws-sdk/client-s3'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { eq } from 'drizzle-orm'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { findObjectWithContent } from '../objects/read-object.ts'
import { buckets } from '../objects/table.ts'
import { bucketName, newS3User, type S3User, sendSigned, startS3, type TestS3 } from '../../../../test/s3.ts'

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

const failure = (name: string, status: number) =>
  expect.objectContaining({ name, $metadata: expect.objectContaining({ httpStatusCode: status }) as object }) as object

const put = (Key: string, Body: string | Buffer, more: object = {}) =>
  ana.client.send(new PutObjectCommand({ Bucket, Key, Body, ...more }))
const get = async (Key: string, more: object = {}) => {
  const answer = await ana.client.send(new GetObjectCommand({ Bucket, Key, ...more }))
  return { ...answer, bytes: Buffer.from((await answer.Body?.transformToByteArray()) ?? []) }
}

test('an object whose bytes the store does not give is a 502, not an answer that breaks off (D22)', async () => {
  await put('lost', randomBytes(100_000))
  const [bucket] = await platform.api.db.select({ id: buckets.id }).from(buckets).where(eq(buckets.name, Bucket))
  const row = await findObjectWithContent(platform.api, bucket?.id ?? '', 'lost')
  await platform.api.blobs.remove([row?.first?.id ?? ''])
  await expect(get('lost')).rejects.toEqual(failure('InternalError', 502))
  await expect(get('lost', { Range: 'bytes=5-9' })).rejects.toEqual(failure('InternalError', 502))
})

test.each([0, 1, 4_096, 16_384, 16_385, 1_000_000])('an object of %s bytes reads back as it was put', async (size) => {
  const body = randomBytes(size)
  const made = await put(`size-${size}`, body, {
    ContentType: 'text/x',
    Metadata: { name: 'wert' },
    CacheControl: 'max-age=5',
    ContentDisposition: 'attachment',
    ContentLanguage: 'de',
    ContentEncoding: 'gzip',
    Tagging: 'a=1&b=2',
  })
  const row = await get(`size-${size}`)
  expect(row.bytes.equals(body)).toBe(true)
  expect(row).toMatchObject({
    ETag: made.ETag,
    ContentLength: size,
    ContentType: 'text/x',
    Metadata: { name: 'wert' },
    CacheControl: 'max-age=5',
    ContentDisposition: 'attachment',
    ContentLanguage: 'de',
    ContentEncoding: 'gzip',
    TagCount: 2,
    AcceptRanges: 'bytes',
  })
  const head = await ana.client.send(new HeadObjectCommand({ Bucket, Key: `size-${size}` }))
  expect(head).toMatchObject({ ETag: made.ETag, ContentLength: size, LastModified: row.LastModified })
})

test.each([
  '../../etc/passwd',
  'a//b',
  '/leading',
  'trailing/',
  '.',
  '..',
  './x',
  'a b+c',
  'ключ/🦊',
  'a%2Fb',
  "q!'()*",
  'k'.repeat(1_024),
  'é'.repeat(512),
  'a\u0001b',
])('the key %j names an object of its own', async (key) => {
  await put(key, `at ${key}`)
  expect((await get(key)).bytes.toString()).toBe(`at ${key}`)
})

test('a GET is answered as a page of no origin, and says so', async () => {
  await put('page.html', '<script>alert(1)</script>', { ContentType: 'text/html' })
  const answer = await sendSigned(s3, { path: `/s3/${Bucket}/page.html` }, ana)
  expect(answer.headers).toMatchObject({
    'content-security-policy': 'sandbox',
    'x-content-type-options': 'nosniff',
    'content-type': 'text/html',
    'x-amz-request-id': expect.stringMatching(/^[\w.-]+$/) as string,
  })
})

test.each([
  ['bytes=0-3', 206, 'abcd', 'bytes 0-3/10'],
  ['bytes=8-', 206, 'ij', 'bytes 8-9/10'],
  ['bytes=-3', 206, 'hij', 'bytes 7-9/10'],
  ['bytes=-100', 206, 'abcdefghij', 'bytes 0-9/10'],
  ['bytes=5-100', 206, 'fghij', 'bytes 5-9/10'],
  ['bytes=0-18446744073709551616', 206, 'abcdefghij', 'bytes 0-9/10'],
  ['bytes=4-2', 200, 'abcdefghij', undefined],
  ['bytes=0-1,3-4', 200, 'abcdefghij', undefined],
  ['chars=0-1', 200, 'abcdefghij', undefined],
])('the range %s is answered by %s', async (range, status, text, contentRange) => {
  await put('ten', 'abcdefghij')
  const answer = await sendSigned(s3, { path: `/s3/${Bucket}/ten`, headers: { range } }, ana)
  expect({ status: answer.status, text: answer.text, range: answer.headers['content-range'] }).toEqual({
    status,
    text,
    range: contentRange,
  })
  const head = await sendSigned(s3, { method: 'HEAD', path: `/s3/${Bucket}/ten`, headers: { range } }, ana)
  expect(head).toMatchObject({ status, text: '', headers: { 'content-length': String(text.length) } })
})

test.each(['bytes=10-', 'bytes=-0', 'bytes=18446744073709551616-'])('the range %s is InvalidRange', async (Range) => {
  await put('ten', 'abcdefghij')
  await expect(get('ten', { Range })).rejects.toEqual(failure('InvalidRange', 416))
})

test('a range of an object of many bytes is read from the driver', async () => {
  const body = randomBytes(300_000)
  await put('large', body)
  expect((await get('large', { Range: 'bytes=100000-100009' })).bytes).toEqual(body.subarray(100_000, 100_010))
})

test('conditions of a GET and a HEAD hold as RFC 9110 orders them', async () => {
  const { ETag = '' } = await put('conditional', 'x')
  const { LastModified: time = new Date() } = await get('conditional')
  const before = new Date(time.getTime() - 5_000)
  const status = async (more: object) =>
    ana.client.send(new HeadObjectCommand({ Bucket, Key: 'conditional', ...more })).then(
      () => 200,
      (error: { $metadata: { httpStatusCode: number } }) => error.$metadata.httpStatusCode,
    )
  expect(await status({ IfMatch: ETag })).toBe(200)
  expect(await status({ IfMatch: '"other"' })).toBe(412)
  expect(await status({ IfNoneMatch: ETag })).toBe(304)
  expect(await status({ IfNoneMatch: '"other"' })).toBe(200)
  expect(await status({ IfModifiedSince: time })).toBe(304)
  expect(await status({ IfModifiedSince: before })).toBe(200)
  expect(await status({ IfUnmodifiedSince: time })).toBe(200)
  expect(await status({ IfUnmodifiedSince: before })).toBe(412)
  expect(await status({ IfMatch: ETag, IfUnmodifiedSince: before })).toBe(200)
  expect(await status({ IfNoneMatch: '"other"', IfModifiedSince: time })).toBe(200)
  const partial = { path: `/s3/${Bucket}/conditional`, headers: { range: 'bytes=0-0', 'if-range': '"other"' } }
  expect((await sendSigned(s3, partial, ana)).status).toBe(200)
  const same = { path: `/s3/${Bucket}/conditional`, headers: { range: 'bytes=0-0', 'if-range': ETag } }
  expect((await sendSigned(s3, same, ana)).status).toBe(206)
})

test('a signed GET chooses its response headers, and cannot break out of one', async () => {
  await put('chosen', 'x')
  const row = await get('chosen', {
    ResponseContentDisposition: 'attachment; filename="ü.txt"',
    ResponseContentType: 'a/b',
  })
  expect(row).toMatchObject({ ContentType: 'a/b' })
  const path = `/s3/${Bucket}/chosen?response-content-type=a%0D%0AX-Evil%3A1`
  expect(await sendSigned(s3, { path }, ana)).toMatchObject({ status: 400, code: 'InvalidArgument' })
})

test('If-None-Match and If-Match of a PUT are held to', async () => {
  await put('fresh', '1', { IfNoneMatch: '*' })
  await expect(put('fresh', '2', { IfNoneMatch: '*' })).rejects.toEqual(failure('PreconditionFailed', 412))
  const { ETag } = await get('fresh')
  await expect(put('fresh', '2', { IfMatch: '"other"' })).rejects.toEqual(failure('PreconditionFailed', 412))
  await put('fresh', '2', { IfMatch: ETag })
  expect((await get('fresh')).bytes.toString()).toBe('2')
  await expect(put('nothing-there', '2', { IfMatch: ETag })).rejects.toEqual(failure('NoSuchKey', 404))
  await expect(put('fresh', '3', { IfNoneMatch: '"x"' })).rejects.toEqual(failure('NotImplemented', 501))
})

test('of 100 that write one key if it is new, one wins and the others get 412', async () => {
  const answers = await Promise.all(
    Array.from({ length: 100 }, (_, i) =>
      sendSigned(
        s3,
        { method: 'PUT', path: `/s3/${Bucket}/raced`, headers: { 'if-none-match': '*' }, body: `racer ${i}` },
        ana,
      ),
    ),
  )
  expect(answers.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([200, ...Array<number>(99).fill(412)])
  const winner = answers.findIndex(({ status }) => status === 200)
  expect((await get('raced')).bytes.toString()).toBe(`racer ${winner}`)
})

test('of 100 that replace one version, one wins and the others get 412', async () => {
  const { ETag = '' } = await put('versioned', 'first')
  const answers = await Promise.all(
    Array.from({ length: 100 }, (_, i) =>
      sendSigned(
        s3,
        { method: 'PUT', path: `/s3/${Bucket}/versioned`, headers: { 'if-match': ETag }, body: `racer ${i}` },
        ana,
      ),
    ),
  )
  expect(answers.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([200, ...Array<number>(99).fill(412)])
})

test('an overwritten object goes to the trash, and so does a deleted one; a second deletion is no failure', async () => {
  await put('replaced', 'old')
  await put('replaced', 'new')
  await ana.client.send(new DeleteObjectCommand({ Bucket, Key: 'replaced' }))
  await ana.client.send(new DeleteObjectCommand({ Bucket, Key: 'replaced' }))
  await expect(get('replaced')).rejects.toEqual(failure('NoSuchKey', 404))
  const trash = await platform.call(
    ana.owner.token,
    `GET /applications/${ana.owner.applicationId}/storage/buckets/${Bucket}/trash`,
  )
  const keys = (trash.body as { items: { key: string }[] }).items.map(({ key }) => key)
  expect(keys.filter((key) => key === 'replaced')).toHaveLength(2)
})

test('a deletion with If-Match spares another version', async () => {
  const { ETag } = await put('spared', '1')
  const remove = (IfMatch: string | undefined) =>
    ana.client.send(new DeleteObjectCommand({ Bucket, Key: 'spared', IfMatch }))
  await expect(remove('"other"')).rejects.toEqual(failure('PreconditionFailed', 412))
  await remove(ETag)
  await expect(remove(ETag)).rejects.toEqual(failure('NoSuchKey', 404))
})

test('a copy has the bytes and what is known of them, and REPLACE replaces it', async () => {
  const body = randomBytes(100_000)
  const { ETag } = await put('source', body, { ContentType: 'a/b', Metadata: { x: '1' }, Tagging: 't=1' })
  const copy = (Key: string, more: object = {}) =>
    ana.client.send(new CopyObjectCommand({ Bucket, Key, CopySource: `${Bucket}/source`, ...more }))
  const made = await copy('copied')
  expect(made.CopyObjectResult).toMatchObject({ ETag, LastModified: expect.any(Date) as Date })
  const row = await get('copied')
  expect(row).toMatchObject({ ContentType: 'a/b', Metadata: { x: '1' }, TagCount: 1, ETag })
  expect(row.bytes.equals(body)).toBe(true)
  await copy('copied', { MetadataDirective: 'REPLACE', ContentType: 'c/d', Metadata: { y: '2' } })
  expect(await get('copied')).toMatchObject({ ContentType: 'c/d', Metadata: { y: '2' }, TagCount: 1 })
  await copy('copied', { TaggingDirective: 'REPLACE', Tagging: 'u=1&v=2' })
  expect(await get('copied')).toMatchObject({ ContentType: 'a/b', TagCount: 2 })
  await ana.client.send(new DeleteObjectCommand({ Bucket, Key: 'source' }))
  expect((await get('copied')).bytes.equals(body)).toBe(true)
})

test('a copy onto itself needs a change; with one it is what rclone does to set a time', async () => {
  await put('itself', 'x')
  const copy = (more: object) =>
    ana.client.send(new CopyObjectCommand({ Bucket, Key: 'itself', CopySource: `/${Bucket}/itself`, ...more }))
  await expect(copy({})).rejects.toEqual(failure('InvalidRequest', 400))
  await copy({ MetadataDirective: 'REPLACE', Metadata: { mtime: '1' } })
  expect(await get('itself')).toMatchObject({ Metadata: { mtime: '1' } })
  expect((await get('itself')).bytes.toString()).toBe('x')
  await copy({ StorageClass: 'STANDARD' })
  expect(await get('itself')).toMatchObject({ Metadata: { mtime: '1' } })
  await expect(copy({ StorageClass: 'GLACIER' })).rejects.toEqual(failure('InvalidStorageClass', 400))
})

test.each([
  ['deflate, gzip', 'deflate, gzip'],
  ['deflate,gzip', 'deflate,gzip'],
  ['aws-chunked, deflate,  gzip', 'deflate,  gzip'],
  ['gzip,AWS-Chunked', 'gzip'],
  ['aws-chunked', undefined],
])('the content encoding %s comes back as %s', async (sent, expected) => {
  const path = `/s3/${Bucket}/encoded`
  const put = { method: 'PUT', path, body: 'x', headers: { 'content-encoding': sent } }
  expect((await sendSigned(s3, put, ana)).status).toBe(200)
  expect((await sendSigned(s3, { path }, ana)).headers['content-encoding']).toBe(expected)
})

test('a copy asks for a checksum that its source has not got, and gets it', async () => {
  await put('summed', 'hello', { ChecksumAlgorithm: 'CRC32' })
  const made = await ana.client.send(
    new CopyObjectCommand({ Bucket, Key: 'summed-2', CopySource: `${Bucket}/summed`, ChecksumAlgorithm: 'SHA256' }),
  )
  expect(made.CopyObjectResult?.ChecksumSHA256).toBe('LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ=')
})

test('conditions on the source and the target of a copy are held to, and a missing source is named', async () => {
  const { ETag } = await put('from', 'x')
  const copy = (more: object) =>
    ana.client.send(new CopyObjectCommand({ Bucket, Key: 'to', CopySource: `${Bucket}/from`, ...more }))
  await expect(copy({ CopySourceIfMatch: '"other"' })).rejects.toEqual(failure('PreconditionFailed', 412))
  await expect(copy({ CopySourceIfNoneMatch: ETag })).rejects.toEqual(failure('PreconditionFailed', 412))
  await expect(copy({ CopySourceIfModifiedSince: new Date(Date.now() + 1_000) })).rejects.toEqual(
    failure('PreconditionFailed', 412),
  )
  await expect(copy({ CopySourceIfUnmodifiedSince: new Date(0) })).rejects.toEqual(failure('PreconditionFailed', 412))
  await copy({ CopySourceIfMatch: ETag, IfNoneMatch: '*' })
  await expect(copy({ IfNoneMatch: '*' })).rejects.toEqual(failure('PreconditionFailed', 412))
  await expect(copy({ CopySource: `${Bucket}/none` })).rejects.toEqual(failure('NoSuchKey', 404))
  await expect(copy({ CopySource: `none-such/from` })).rejects.toEqual(failure('NoSuchBucket', 404))
  await expect(copy({ CopySource: 'nonsense' })).rejects.toEqual(failure('InvalidArgument', 400))
})

test('in a copy source + is a plus and %2B is one too', async () => {
  await put('a+b c', 'plus')
  for (const source of ['a+b%20c', 'a%2Bb%20c']) {
    const headers = { 'x-amz-copy-source': `/${Bucket}/${source}` }
    expect((await sendSigned(s3, { method: 'PUT', path: `/s3/${Bucket}/plus-copy`, headers }, ana)).status).toBe(200)
  }
  expect((await get('plus-copy')).bytes.toString()).toBe('plus')
})

test('of 100 copies onto a key that is to be new, one wins', async () => {
  await put('copy-race', 'x')
  const headers = { 'x-amz-copy-source': `/${Bucket}/copy-race`, 'if-none-match': '*' }
  const answers = await Promise.all(
    Array.from({ length: 100 }, () =>
      sendSigned(s3, { method: 'PUT', path: `/s3/${Bucket}/copy-raced`, headers }, ana),
    ),
  )
  expect(answers.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([200, ...Array<number>(99).fill(412)])
})

test('tags are put, read, replaced and deleted; wrong ones are refused', async () => {
  await put('tagged', 'x')
  const set = (TagSet: { Key: string; Value: string }[]) =>
    ana.client.send(new PutObjectTaggingCommand({ Bucket, Key: 'tagged', Tagging: { TagSet } }))
  const read = async () => (await ana.client.send(new GetObjectTaggingCommand({ Bucket, Key: 'tagged' }))).TagSet
  await set([
    { Key: 'a', Value: '<1>&' },
    { Key: 'b', Value: '' },
  ])
  expect(await read()).toEqual([
    { Key: 'a', Value: '<1>&' },
    { Key: 'b', Value: '' },
  ])
  await expect(set(Array.from({ length: 11 }, (_, i) => ({ Key: `k${i}`, Value: '' })))).rejects.toEqual(
    failure('InvalidTag', 400),
  )
  await expect(set([{ Key: 'k'.repeat(129), Value: '' }])).rejects.toEqual(failure('InvalidTag', 400))
  await expect(
    set([
      { Key: 'a', Value: '1' },
      { Key: 'a', Value: '2' },
    ]),
  ).rejects.toEqual(failure('InvalidTag', 400))
  await ana.client.send(new DeleteObjectTaggingCommand({ Bucket, Key: 'tagged' }))
  expect(await read()).toEqual([])
  await expect(ana.client.send(new GetObjectTaggingCommand({ Bucket, Key: 'untold' }))).rejects.toEqual(
    failure('NoSuchKey', 404),
  )
})

test('checksums are kept, answered where asked for, and shown among the attributes', async () => {
  await put('summed-too', 'hello', { ChecksumAlgorithm: 'SHA1' })
  expect(await get('summed-too', { ChecksumMode: 'ENABLED' })).toMatchObject({
    ChecksumSHA1: 'qvTGHdzF6KLavt4PO0gs2a6pQ00=',
  })
  const attributes = await ana.client.send(
    new GetObjectAttributesCommand({
      Bucket,
      Key: 'summed-too',
      ObjectAttributes: ['ETag', 'Checksum', 'ObjectParts', 'StorageClass', 'ObjectSize'],
    }),
  )
  expect(attributes).toMatchObject({
    ETag: '5d41402abc4b2a76b9719d911017c592',
    Checksum: { ChecksumSHA1: 'qvTGHdzF6KLavt4PO0gs2a6pQ00=', ChecksumType: 'FULL_OBJECT' },
    StorageClass: 'STANDARD',
    ObjectSize: 5,
    LastModified: expect.any(Date) as Date,
  })
  const path = `/s3/${Bucket}/summed-too?attributes`
  const headers = { 'x-amz-object-attributes': 'Nonsense' }
  expect(await sendSigned(s3, { path, headers }, ana)).toMatchObject({ status: 400, code: 'InvalidArgument' })
})

test('the ACL of an object says who owns it', async () => {
  await put('owned', 'x')
  expect(await ana.client.send(new GetObjectAclCommand({ Bucket, Key: 'owned' }))).toMatchObject({
    Owner: { ID: ana.owner.applicationId },
    Grants: [{ Permission: 'FULL_CONTROL', Grantee: { Type: 'CanonicalUser', ID: ana.owner.applicationId } }],
  })
})

test.each([
  ['server-side encryption', { ServerSideEncryption: 'AES256' }, 'NotImplemented', 501],
  ['a storage class that is not', { StorageClass: 'GLACIER' }, 'InvalidStorageClass', 400],
  ['an ACL that opens a private bucket', { ACL: 'public-read' }, 'AccessControlListNotSupported', 400],
  ['a grant', { GrantRead: 'id=x' }, 'AccessControlListNotSupported', 400],
  ['a lock', { ObjectLockLegalHoldStatus: 'ON', ChecksumAlgorithm: 'CRC32' }, 'NotImplemented', 501],
  ['a redirect', { WebsiteRedirectLocation: '/x' }, 'NotImplemented', 501],
  ['2,049 bytes of metadata', { Metadata: { a: 'x'.repeat(2_048) } }, 'MetadataTooLarge', 400],
])('a PUT that asks for %s is refused and stores nothing', async (_, more, code, status) => {
  await expect(put('asked-too-much', 'x', more)).rejects.toEqual(failure(code, status))
  await expect(get('asked-too-much')).rejects.toEqual(failure('NoSuchKey', 404))
})

test('metadata of 2,048 bytes, in any script, comes back as it went', async () => {
  await put('described', 'x', { Metadata: { a: 'x'.repeat(2_047) }, ACL: 'private', StorageClass: 'STANDARD' })
  expect((await get('described')).Metadata).toEqual({ a: 'x'.repeat(2_047) })
  const headers = { 'x-amz-meta-name': Buffer.from('Größe 🦊').toString('latin1') }
  const path = `/s3/${Bucket}/described-utf8`
  expect(
    (await sendSigned(s3, { method: 'PUT', path, headers, body: 'x' }, { ...ana, unsigned: ['x-amz-meta-name'] })).code,
  ).toBe('AccessDenied')
})

test('a version that is none is refused, and null is the only one there is', async () => {
  await put('unversioned', 'x')
  await expect(get('unversioned', { VersionId: 'abc' })).rejects.toEqual(failure('InvalidArgument', 400))
  expect((await get('unversioned', { VersionId: 'null' })).bytes.toString()).toBe('x')
})
