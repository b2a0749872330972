// engines: s3
import {
  CreateBucketCommand,
  ListObjectVersionsCommand,
  type ListObjectVersionsCommandOutput,
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

async function newBucket(keys: readonly string[] = []): Promise<string> {
  const Bucket = bucketName()
  await ana.client.send(new CreateBucketCommand({ Bucket }))
  for (const Key of keys) await ana.client.send(new PutObjectCommand({ Bucket, Key, Body: Key }))
  return Bucket
}
const send = (Bucket: string, query: string, method = 'GET', body = '', headers = {}) =>
  sendSigned(s3, { method, path: `/s3/${Bucket}${query}`, body, headers }, ana)

const tricky = ['a!b', 'a-1', 'a.txt', 'a/x', 'a/y/z', 'a0', 'b/', 'b/1', 'c', 'é', '🦊/x']
const namesIn = ({ Versions = [], CommonPrefixes = [] }: ListObjectVersionsCommandOutput) => [
  ...Versions.map(({ Key }) => Key ?? ''),
  ...CommonPrefixes.map(({ Prefix }) => Prefix ?? ''),
]
const inBytes = (a: string, b: string) => Buffer.compare(Buffer.from(a), Buffer.from(b))

/** The expected list, computed the simple way. */
function expected(keys: readonly string[], prefix: string, delimiter: string): string[] {
  const names = keys
    .filter((key) => key.startsWith(prefix))
    .map((key) => {
      const index = delimiter === '' ? -1 : key.indexOf(delimiter, prefix.length)
      return index < 0 ? key : key.slice(0, index + delimiter.length)
    })
  return [...new Set(names)].toSorted(inBytes)
}

test.each([1, 2, 3, 1_000])(
  'lists of versions in pages of %s hold every key and common prefix once',
  async (MaxKeys) => {
    const Bucket = await newBucket(tricky)
    for (const [Prefix, Delimiter] of [
      ['', ''],
      ['', '/'],
      ['a', '/'],
      ['a/', '/'],
      ['b/', '/'],
      ['', 'y/'],
      ['nothing', '/'],
    ] as const) {
      const names: string[] = []
      for (let markers: { KeyMarker?: string; VersionIdMarker?: string } = {}; ;) {
        const page = await ana.client.send(
          new ListObjectVersionsCommand({ Bucket, Prefix, Delimiter, MaxKeys, EncodingType: 'url', ...markers }),
        )
        names.push(...namesIn(page).map(decodeURIComponent))
        expect(namesIn(page).length).toBeLessThanOrEqual(MaxKeys)
        if (!page.IsTruncated) break
        markers = {
          KeyMarker: decodeURIComponent(page.NextKeyMarker ?? ''),
          ...(page.NextVersionIdMarker !== undefined && { VersionIdMarker: page.NextVersionIdMarker }),
        }
      }
      expect(names.toSorted(inBytes)).toEqual(expected(tricky, Prefix, Delimiter))
    }
  },
)

test('every live object is the one, latest version of its key; trash is no version', async () => {
  const Bucket = await newBucket(['a', 'gone'])
  await ana.client.send(new PutObjectCommand({ Bucket, Key: 'a', Body: 'newer' }))
  await send(Bucket, '/gone', 'DELETE')
  const page = await ana.client.send(new ListObjectVersionsCommand({ Bucket }))
  expect(page).toMatchObject({ IsTruncated: false, MaxKeys: 1_000, Name: Bucket })
  expect(page.DeleteMarkers).toBeUndefined()
  expect(page.Versions).toEqual([
    {
      Key: 'a',
      VersionId: 'null',
      IsLatest: true,
      Size: 5,
      ETag: expect.any(String) as string,
      LastModified: expect.any(Date) as Date,
      StorageClass: 'STANDARD',
      ChecksumAlgorithm: ['CRC32'],
      ChecksumType: 'FULL_OBJECT',
      Owner: { ID: ana.owner.applicationId, DisplayName: ana.owner.applicationId },
    },
  ])
})

test('a page of versions says where the next one begins, and only versions have ids', async () => {
  const Bucket = await newBucket(['a', 'b/1', 'c'])
  const page = async (query: string) => (await send(Bucket, `?versions&max-keys=1${query}`)).text
  const first = await page('&delimiter=/')
  expect(first).toContain('<NextKeyMarker>a</NextKeyMarker><NextVersionIdMarker>null</NextVersionIdMarker>')
  const second = await page('&delimiter=/&key-marker=a&version-id-marker=null')
  expect(second).toContain('<NextKeyMarker>b/</NextKeyMarker><MaxKeys>')
  expect(second).toContain('<CommonPrefixes><Prefix>b/</Prefix></CommonPrefixes>')
  expect(await page('&key-marker=b/1')).toContain('<Key>c</Key>')
  expect(await send(Bucket, '?versions&max-keys=0')).toMatchObject({ status: 200 })
})

test.each(['version-id-marker=null', 'key-marker=a&version-id-marker=other', 'max-keys=-1', 'encoding-type=xml'])(
  'a list of versions with %s is refused',
  async (query) => {
    expect(await send(await newBucket(), `?versions&${query}`)).toMatchObject({ status: 400, code: 'InvalidArgument' })
  },
)
