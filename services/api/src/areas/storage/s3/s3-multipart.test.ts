// engines: s3
import { createHash, randomBytes } from 'node:crypto'
import {
  AbortMultipartUploadCommand,
  CompleteMultipartUploadCommand,
  type CompletedPart,
  CopyObjectCommand,
  CreateBucketCommand,
  CreateMultipartUploadCommand,
  GetObjectAttributesCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListMultipartUploadsCommand,
  ListPartsCommand,
  PutObjectCommand,
  UploadPartCommand,
  UploadPartCopyCommand,
} from '@aws-sdk/client-s3'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { and, eq, sql } from 'drizzle-orm'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { bucketName, newS3User, type S3User, sendSigned, startS3, type TestS3 } from '../../../../test/s3.ts'
import { collectGarbage } from '../objects/maintenance/collect-garbage.ts'
import { blobs, objectBlobs, objects, uploads } from '../objects/table.ts'

const MIB = 1_024 ** 2
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

let n = 0
async function begin(more: object = {}): Promise<{ Key: string; UploadId: string }> {
  const Key = `upload-${n++}`
  const { UploadId = '' } = await ana.client.send(new CreateMultipartUploadCommand({ Bucket, Key, ...more }))
  return { Key, UploadId }
}
type Begun = Awaited<ReturnType<typeof begin>>

async function part(of: Begun, PartNumber: number, Body: Buffer, more: object = {}): Promise<CompletedPart> {
  const made = await ana.client.send(new UploadPartCommand({ Bucket, ...of, PartNumber, Body, ...more }))
  const { ETag, ChecksumCRC32, ChecksumCRC64NVME, ChecksumSHA256 } = made
  return { PartNumber, ETag, ChecksumCRC32, ChecksumCRC64NVME, ChecksumSHA256 }
}
const complete = (of: Begun, Parts: CompletedPart[], more: object = {}) =>
  ana.client.send(new CompleteMultipartUploadCommand({ Bucket, ...of, MultipartUpload: { Parts }, ...more }))
async function get(Key: string, more: object = {}) {
  const answer = await ana.client.send(new GetObjectCommand({ Bucket, Key, ...more }))
  return { ...answer, bytes: Buffer.from((await answer.Body?.transformToByteArray()) ?? []) }
}

const md5 = (bytes: Buffer) => createHash('md5').update(bytes).digest()
const large = randomBytes(5 * MIB)
const rest = randomBytes(1_000)

test('parts in any order of arrival become an object with the ETag of its parts', async () => {
  const of = await begin({ ContentType: 'a/b', Metadata: { x: 'y' }, Tagging: 't=1' })
  const last = await part(of, 7, rest)
  const first = await part(of, 3, large)
  const made = await complete(of, [first, last])
  const etag = `"${md5(Buffer.concat([md5(large), md5(rest)])).toString('hex')}-2"`
  expect(made).toMatchObject({ ETag: etag, Bucket, Key: of.Key, Location: `${platform.apiUrl}/s3/${Bucket}/${of.Key}` })
  const row = await get(of.Key)
  expect(row.bytes.equals(Buffer.concat([large, rest]))).toBe(true)
  expect(row).toMatchObject({ ETag: etag, ContentType: 'a/b', Metadata: { x: 'y' }, TagCount: 1 })
  const range = await get(of.Key, { Range: `bytes=${5 * MIB - 2}-${5 * MIB + 1}` })
  expect(range.bytes).toEqual(Buffer.concat([large.subarray(-2), rest.subarray(0, 2)]))
  expect(await get(of.Key, { PartNumber: 7 })).toMatchObject({ bytes: rest, PartsCount: 2 })
  await expect(get(of.Key, { PartNumber: 4 })).rejects.toEqual(failure('InvalidPartNumber', 416))
})

test('one part, even an empty one, is an object', async () => {
  for (const bytes of [rest, Buffer.alloc(0)]) {
    const of = await begin()
    await complete(of, [await part(of, 1, bytes)])
    expect((await get(of.Key)).bytes).toEqual(bytes)
  }
})

test('a part that is sent again replaces the one before, whose bytes are collected', async () => {
  const of = await begin()
  const replaced = randomBytes(50_001)
  await part(of, 1, replaced)
  const again = await part(of, 1, rest)
  const { Parts } = await ana.client.send(new ListPartsCommand({ Bucket, ...of }))
  expect(Parts).toMatchObject([{ PartNumber: 1, Size: 1_000, ETag: again.ETag }])
  await complete(of, [again])
  await collectGarbage(platform.api)
  expect((await get(of.Key)).bytes).toEqual(rest)
  const left = await platform.api.db.select().from(blobs).where(eq(blobs.length, replaced.length))
  expect(left.map(({ state }) => state)).not.toContain('live')
})

test('twenty that send one part at once leave one of them, whole', async () => {
  const of = await begin()
  const bodies = Array.from({ length: 20 }, (_, i) => Buffer.alloc(20_000 + i, i))
  await Promise.all(bodies.map((body) => part(of, 1, body)))
  const { Parts = [] } = await ana.client.send(new ListPartsCommand({ Bucket, ...of }))
  expect(Parts).toHaveLength(1)
  await complete(of, [{ PartNumber: 1, ETag: Parts[0]?.ETag }])
  const { bytes } = await get(of.Key)
  expect(bodies.some((body) => body.equals(bytes))).toBe(true)
})

test.each([0, 10_001, -1, 1.5])('part number %s is refused', async (PartNumber) => {
  const of = await begin()
  const path = `/s3/${Bucket}/${of.Key}?partNumber=${PartNumber}&uploadId=${of.UploadId}`
  expect(await sendSigned(s3, { method: 'PUT', path, body: 'x' }, ana)).toMatchObject({
    status: 400,
    code: 'InvalidArgument',
  })
})

test('part 10,000 is the last one there can be', async () => {
  const of = await begin()
  await complete(of, [await part(of, 10_000, rest)])
  expect((await get(of.Key)).bytes).toEqual(rest)
})

test('what a completion gets wrong is refused, and the upload goes on', async () => {
  const of = await begin()
  const one = await part(of, 1, rest)
  const two = await part(of, 2, rest)
  await expect(complete(of, [one, two])).rejects.toEqual(failure('EntityTooSmall', 400))
  await expect(complete(of, [two, one])).rejects.toEqual(failure('InvalidPartOrder', 400))
  await expect(complete(of, [one, one])).rejects.toEqual(failure('InvalidPartOrder', 400))
  await expect(complete(of, [{ PartNumber: 3, ETag: one.ETag }])).rejects.toEqual(failure('InvalidPart', 400))
  await expect(complete(of, [{ ...one, ETag: '"0123456789abcdef0123456789abcdef"' }])).rejects.toEqual(
    failure('InvalidPart', 400),
  )
  await expect(complete(of, [])).rejects.toEqual(failure('MalformedXML', 400))
  await expect(complete(of, [{ ...one, PartNumber: 10_001 }])).rejects.toEqual(failure('InvalidArgument', 400))
  await expect(complete(of, [one], { MpuObjectSize: 999 })).rejects.toEqual(failure('InvalidRequest', 400))
  await complete(of, [two], { MpuObjectSize: 1_000 })
  expect((await get(of.Key)).bytes).toEqual(rest)
})

test('a completion of 10,001 parts is refused', async () => {
  const of = await begin()
  const parts = Array.from({ length: 10_001 }, (_, i) => `<Part><PartNumber>${i + 1}</PartNumber><ETag>x</ETag></Part>`)
  const body = `<CompleteMultipartUpload>${parts.join('')}</CompleteMultipartUpload>`
  const path = `/s3/${Bucket}/${of.Key}?uploadId=${of.UploadId}`
  expect(await sendSigned(s3, { method: 'POST', path, body }, ana)).toMatchObject({ status: 400, code: 'MalformedXML' })
  const bomb = `<!DOCTYPE x [<!ENTITY a "aa">]><CompleteMultipartUpload>&a;</CompleteMultipartUpload>`
  expect(await sendSigned(s3, { method: 'POST', path, body: bomb }, ana)).toMatchObject({ code: 'MalformedXML' })
})

test('10,000 parts are completed by moving rows', async () => {
  const of = await begin()
  const one = await part(of, 1, large)
  // The same bytes 9,999 more times: only the number of rows matters here.
  await platform.api.db.execute(sql`insert into upload_blobs (upload_id, part, n, blob_id, length, etag, uploaded_at)
    select upload_id, number, n, blob_id, length, etag, uploaded_at from upload_blobs, generate_series(2, 10000) number
    where upload_id = ${of.UploadId}`)
  const parts = Array.from({ length: 10_000 }, (_, i) => ({ PartNumber: i + 1, ETag: one.ETag }))
  expect((await complete(of, parts)).ETag).toMatch(/-10000"$/)
  const row = await get(of.Key, { Range: `bytes=${large.length * 9_999}-${large.length * 9_999 + 9}` })
  expect(row).toMatchObject({
    bytes: large.subarray(0, 10),
    ContentRange: expect.stringMatching(/52428800000$/) as string,
  })
})

test('s3cmd’s document, without namespace and with bare ETags, is taken', async () => {
  const of = await begin()
  const { ETag = '' } = await part(of, 1, rest)
  const body = `<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>${ETag.replaceAll('"', '')}</ETag></Part></CompleteMultipartUpload>`
  const path = `/s3/${Bucket}/${of.Key}?uploadId=${of.UploadId}`
  expect((await sendSigned(s3, { method: 'POST', path, body }, ana)).status).toBe(200)
})

test('a completion whose answer was lost is answered again, another one is not', async () => {
  const of = await begin()
  const one = await part(of, 1, rest)
  const first = await complete(of, [one], { IfNoneMatch: '*' })
  expect((await complete(of, [one], { IfNoneMatch: '*' })).ETag).toBe(first.ETag)
  await expect(complete(of, [{ PartNumber: 1, ETag: '"0123456789abcdef0123456789abcdef"' }])).rejects.toEqual(
    failure('NoSuchUpload', 404),
  )
  await expect(part(of, 2, rest)).rejects.toEqual(failure('NoSuchUpload', 404))
})

test('of 100 uploads completed onto one new key at once, one wins and the others get 412', async () => {
  const Key = 'complete-race'
  const begun = await Promise.all(
    Array.from({ length: 100 }, async () => {
      const { UploadId = '' } = await ana.client.send(new CreateMultipartUploadCommand({ Bucket, Key }))
      const of = { Key, UploadId }
      return { of, parts: [await part(of, 1, randomBytes(10))] }
    }),
  )
  const outcomes = await Promise.all(
    begun.map(({ of, parts }) =>
      complete(of, parts, { IfNoneMatch: '*' }).then(
        () => 200,
        (error: { $metadata: { httpStatusCode: number } }) => error.$metadata.httpStatusCode,
      ),
    ),
  )
  expect(outcomes.toSorted((a, b) => a - b)).toEqual([200, ...Array<number>(99).fill(412)])
})

test('If-Match of a completion holds to the version that is there', async () => {
  const { ETag } = await ana.client.send(new PutObjectCommand({ Bucket, Key: 'matched', Body: 'x' }))
  const { UploadId = '' } = await ana.client.send(new CreateMultipartUploadCommand({ Bucket, Key: 'matched' }))
  const of = { Key: 'matched', UploadId }
  const one = await part(of, 1, rest)
  await expect(complete(of, [one], { IfMatch: '"other"' })).rejects.toEqual(failure('PreconditionFailed', 412))
  await complete(of, [one], { IfMatch: ETag })
})

test('an aborted upload is gone, and an expired one too; a foreign or made up id is none', async () => {
  const of = await begin()
  await part(of, 1, rest)
  await ana.client.send(new AbortMultipartUploadCommand({ Bucket, ...of }))
  for (const wrong of [of, { Key: of.Key, UploadId: 'nonsense' }, { ...(await begin()), Key: 'another-key' }]) {
    await expect(part(wrong, 1, rest)).rejects.toEqual(failure('NoSuchUpload', 404))
    await expect(complete(wrong, [{ PartNumber: 1, ETag: 'x' }])).rejects.toEqual(failure('NoSuchUpload', 404))
    await expect(ana.client.send(new ListPartsCommand({ Bucket, ...wrong }))).rejects.toEqual(
      failure('NoSuchUpload', 404),
    )
    await expect(ana.client.send(new AbortMultipartUploadCommand({ Bucket, ...wrong }))).rejects.toEqual(
      failure('NoSuchUpload', 404),
    )
  }
  const old = await begin()
  await platform.api.db
    .update(uploads)
    .set({ expiresAt: new Date(0) })
    .where(eq(uploads.id, old.UploadId))
  await expect(part(old, 1, rest)).rejects.toEqual(failure('NoSuchUpload', 404))
})

test('parts are listed in pages', async () => {
  const of = await begin()
  for (const number of [1, 2, 5]) await part(of, number, rest)
  const list = (more: object) => ana.client.send(new ListPartsCommand({ Bucket, ...of, ...more }))
  const first = await list({ MaxParts: 2 })
  expect(first).toMatchObject({ IsTruncated: true, NextPartNumberMarker: '2' })
  expect(first.Parts?.map(({ PartNumber }) => PartNumber)).toEqual([1, 2])
  const second = await list({ MaxParts: 2, PartNumberMarker: first.NextPartNumberMarker })
  expect(second.Parts?.map(({ PartNumber }) => PartNumber)).toEqual([5])
  expect(second.IsTruncated).toBe(false)
})

test('uploads are listed in pages of any size, by prefix and delimiter', async () => {
  const own = bucketName()
  await ana.client.send(new CreateBucketCommand({ Bucket: own }))
  const keys = ['a!b', 'a/x', 'a/y', 'a0', 'b', 'b']
  for (const Key of keys) await ana.client.send(new CreateMultipartUploadCommand({ Bucket: own, Key }))
  for (const MaxUploads of [1, 2, 3, 1_000]) {
    for (const Delimiter of [undefined, '/']) {
      const value: string[] = []
      for (let markers = {}; ;) {
        const page = await ana.client.send(
          new ListMultipartUploadsCommand({ Bucket: own, MaxUploads, Delimiter, ...markers }),
        )
        value.push(
          ...(page.Uploads ?? []).map(({ Key = '' }) => Key),
          ...(page.CommonPrefixes ?? []).map(({ Prefix = '' }) => Prefix),
        )
        if (!page.IsTruncated) break
        markers = { KeyMarker: page.NextKeyMarker, UploadIdMarker: page.NextUploadIdMarker }
      }
      expect(value.toSorted()).toEqual(Delimiter ? ['a!b', 'a/', 'a0', 'b', 'b'] : keys)
    }
  }
  const { Uploads } = await ana.client.send(new ListMultipartUploadsCommand({ Bucket: own, Prefix: 'a/' }))
  expect(Uploads?.map(({ Key }) => Key)).toEqual(['a/x', 'a/y'])
})

test('a copied part has the bytes of its source: whole, by blobs, and by a range that cuts through one', async () => {
  const source = Buffer.concat([large, rest])
  const of = await begin()
  await complete(of, [await part(of, 1, large), await part(of, 2, rest)])
  const to = await begin()
  const copy = async (PartNumber: number, CopySourceRange?: string): Promise<CompletedPart> => {
    const made = await ana.client.send(
      new UploadPartCopyCommand({ Bucket, ...to, PartNumber, CopySource: `${Bucket}/${of.Key}`, CopySourceRange }),
    )
    return { PartNumber, ETag: made.CopyPartResult?.ETag }
  }
  const end = source.length - 1
  const parts = [
    await copy(1),
    await copy(2, `bytes=0-${5 * MIB - 1}`),
    await copy(3, `bytes=7-${end}`),
    await copy(4, `bytes=${5 * MIB}-${end}`),
  ]
  const pieces = [source, large, source.subarray(7), rest]
  expect(parts.map(({ ETag }) => ETag)).toEqual(pieces.map((piece) => `"${md5(piece).toString('hex')}"`))
  await complete(to, parts)
  expect((await get(to.Key)).bytes.equals(Buffer.concat(pieces))).toBe(true)
  await expect(copy(5, `bytes=0-${source.length}`)).rejects.toEqual(failure('NoSuchUpload', 404))
  const open = await begin()
  const path = `/s3/${Bucket}/${open.Key}?partNumber=1&uploadId=${open.UploadId}`
  for (const [range, code] of [
    [`bytes=0-${source.length}`, 'InvalidRange'],
    ['bytes=5-', 'InvalidArgument'],
    ['bytes=5-4', 'InvalidArgument'],
  ] as const) {
    const headers = { 'x-amz-copy-source': `/${Bucket}/${of.Key}`, 'x-amz-copy-source-range': range }
    expect((await sendSigned(s3, { method: 'PUT', path, headers }, ana)).code).toBe(code)
  }
})

test('a copy of an object of parts has its bytes, its ETag and its parts', async () => {
  const of = await begin({ ChecksumAlgorithm: 'CRC32' })
  const { ETag } = await complete(of, [await part(of, 1, large), await part(of, 2, rest)])
  await ana.client.send(new CopyObjectCommand({ Bucket, Key: 'of-parts', CopySource: `${Bucket}/${of.Key}` }))
  expect(await get('of-parts', { PartNumber: 2 })).toMatchObject({ ETag, bytes: rest, PartsCount: 2 })
})

test.each([
  ['CRC32', undefined, 'COMPOSITE'],
  ['CRC32', 'FULL_OBJECT', 'FULL_OBJECT'],
  ['CRC64NVME', undefined, 'FULL_OBJECT'],
  ['SHA256', undefined, 'COMPOSITE'],
] as const)('an upload with %s of type %s has a checksum of type %s', async (ChecksumAlgorithm, ChecksumType, type) => {
  const of = await begin({ ChecksumAlgorithm, ChecksumType })
  const parts = [await part(of, 1, large, { ChecksumAlgorithm }), await part(of, 2, rest, { ChecksumAlgorithm })]
  const name = `Checksum${ChecksumAlgorithm}` as const
  const wrong = [{ ...parts[0], [name]: parts[1]?.[name] }, parts[1] as CompletedPart]
  await expect(complete(of, wrong)).rejects.toEqual(failure('InvalidPart', 400))
  const made = await complete(of, parts)
  expect(made.ChecksumType).toBe(type)
  const whole = await ana.client.send(
    new PutObjectCommand({ Bucket, Key: 'whole', Body: Buffer.concat([large, rest]), ChecksumAlgorithm }),
  )
  if (type === 'FULL_OBJECT') expect(made[name]).toBe(whole[name])
  else expect(made[name]).toMatch(/-2$/)
  expect(await get(of.Key, { ChecksumMode: 'ENABLED' })).toMatchObject({ [name]: made[name], ChecksumType: type })
  for (const [i, bytes] of [large, rest].entries()) {
    const told = { [name]: parts[i]?.[name], ChecksumType: type, PartsCount: 2, ContentLength: bytes.length }
    const options = { PartNumber: i + 1, ChecksumMode: 'ENABLED' } as const
    // With ChecksumMode the SDK checks the bytes against the checksum in the answer.
    const { bytes: read, ...row } = await get(of.Key, options)
    expect(read.equals(bytes)).toBe(true)
    expect(row).toMatchObject(told)
    expect(await ana.client.send(new HeadObjectCommand({ Bucket, Key: of.Key, ...options }))).toMatchObject(told)
  }
  const { ObjectParts, Checksum } = await ana.client.send(
    new GetObjectAttributesCommand({ Bucket, Key: of.Key, ObjectAttributes: ['ObjectParts', 'Checksum'] }),
  )
  expect(Checksum).toMatchObject({ [name]: made[name]?.replace(/-2$/, '-2') })
  expect(ObjectParts).toMatchObject({
    TotalPartsCount: 2,
    Parts: [
      { PartNumber: 1, Size: large.length, [name]: parts[0]?.[name] },
      { PartNumber: 2, Size: 1_000, [name]: parts[1]?.[name] },
    ],
  })
})

test('the SDK finds out that a part is not what was uploaded', async () => {
  const of = await begin({ ChecksumAlgorithm: 'CRC32' })
  await complete(of, [await part(of, 1, large), await part(of, 2, rest)])
  const { db } = platform.api
  const [object] = await db.select({ id: objects.id }).from(objects).where(eq(objects.key, of.Key))
  await db
    .update(objectBlobs)
    .set({ partChecksum: 'AAAAAA==' })
    .where(and(eq(objectBlobs.objectId, object?.id ?? ''), eq(objectBlobs.part, 2)))
  await expect(get(of.Key, { PartNumber: 2 })).rejects.toThrow(/checksum mismatch/i)
  expect((await get(of.Key, { PartNumber: 1 })).bytes.equals(large)).toBe(true)
})

test('an object of one piece is a part with its own checksum, and an empty part has no bytes', async () => {
  const { ChecksumCRC32 } = await ana.client.send(new PutObjectCommand({ Bucket, Key: 'one-piece', Body: rest }))
  expect(await get('one-piece', { PartNumber: 1 })).toMatchObject({ bytes: rest, ChecksumCRC32 })
  expect((await get('one-piece', { Range: 'bytes=0-4' })).ChecksumCRC32).toBeUndefined()
  const of = await begin({ ChecksumAlgorithm: 'CRC32' })
  const empty = await part(of, 2, Buffer.alloc(0))
  await complete(of, [await part(of, 1, large), empty])
  expect(await get(of.Key, { PartNumber: 2 })).toMatchObject({
    bytes: Buffer.alloc(0),
    ContentLength: 0,
    PartsCount: 2,
    ChecksumCRC32: empty.ChecksumCRC32,
  })
})

test('a copy with a checksum of another algorithm keeps its parts without theirs', async () => {
  const of = await begin({ ChecksumAlgorithm: 'CRC32' })
  await complete(of, [await part(of, 1, large), await part(of, 2, rest)])
  const copy = { Bucket, Key: 'summed-anew', CopySource: `${Bucket}/${of.Key}`, ChecksumAlgorithm: 'SHA256' } as const
  await ana.client.send(new CopyObjectCommand(copy))
  const row = await get('summed-anew', { PartNumber: 2 })
  expect(row).toMatchObject({ bytes: rest, PartsCount: 2 })
  expect([row.ChecksumSHA256, row.ChecksumCRC32]).toEqual([undefined, undefined])
})

test('a whole checksum that a completion declares is held to', async () => {
  const of = await begin({ ChecksumAlgorithm: 'CRC64NVME' })
  const parts = [await part(of, 1, rest, { ChecksumAlgorithm: 'CRC64NVME' })]
  await expect(complete(of, parts, { ChecksumCRC64NVME: 'AAAAAAAAAAA=' })).rejects.toEqual(failure('BadDigest', 400))
  await expect(complete(of, parts, { ChecksumCRC32: 'AAAAAA==' })).rejects.toEqual(failure('InvalidRequest', 400))
  await expect(complete(of, parts, { ChecksumType: 'COMPOSITE' })).rejects.toEqual(failure('InvalidRequest', 400))
  await complete(of, parts, { ChecksumCRC64NVME: parts[0]?.ChecksumCRC64NVME, ChecksumType: 'FULL_OBJECT' })
})

test.each([
  ['CRC64NVME', 'COMPOSITE'],
  ['SHA256', 'FULL_OBJECT'],
] as const)('%s of type %s does not exist', async (ChecksumAlgorithm, ChecksumType) => {
  await expect(begin({ ChecksumAlgorithm, ChecksumType })).rejects.toEqual(failure('InvalidRequest', 400))
})
