// engines: s3
import {
  CreateBucketCommand,
  DeleteBucketCommand,
  DeleteObjectCommand,
  DeleteObjectsCommand,
  GetBucketAclCommand,
  GetBucketLocationCommand,
  GetBucketVersioningCommand,
  HeadBucketCommand,
  ListBucketsCommand,
  ListObjectsCommand,
  ListObjectsV2Command,
  PutObjectCommand,
} from '@aws-sdk/client-s3'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
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

async function newBucket(keys: readonly string[] = [], user = ana): Promise<string> {
  const Bucket = bucketName()
  await user.client.send(new CreateBucketCommand({ Bucket }))
  for (const Key of keys) await user.client.send(new PutObjectCommand({ Bucket, Key, Body: Key }))
  return Bucket
}

test('a bucket is created, found, located, and deleted with its trash once it is empty (D36)', async () => {
  const Bucket = await newBucket(['a'])
  await ana.client.send(new HeadBucketCommand({ Bucket }))
  const location = async () => (await ana.client.send(new GetBucketLocationCommand({ Bucket }))).LocationConstraint
  expect(await location()).toBeUndefined() // as S3 writes us-east-1
  onTestFinished(() => void (s3.platform.api.s3Region = 'us-east-1'))
  s3.platform.api.s3Region = 'local'
  expect(await location()).toBe('local')
  expect((await ana.client.send(new GetBucketVersioningCommand({ Bucket }))).Status).toBeUndefined()
  await expect(ana.client.send(new CreateBucketCommand({ Bucket }))).rejects.toEqual(
    failure('BucketAlreadyOwnedByYou', 409),
  )
  s3.platform.api.s3Region = 'us-east-1'
  await expect(ana.client.send(new DeleteBucketCommand({ Bucket }))).rejects.toEqual(failure('BucketNotEmpty', 409))
  await ana.client.send(new DeleteObjectCommand({ Bucket, Key: 'a' }))
  await ana.client.send(new DeleteBucketCommand({ Bucket }))
  await expect(ana.client.send(new HeadBucketCommand({ Bucket }))).rejects.toEqual(failure('NotFound', 404))
  await expect(ana.client.send(new ListObjectsV2Command({ Bucket }))).rejects.toEqual(failure('NoSuchBucket', 404))
})

test('in us-east-1 alone, owners may create a bucket that they have, unless it would have to change', async () => {
  const Bucket = await newBucket(['kept'])
  const again = (ACL?: 'private' | 'public-read') =>
    ana.client.send(new CreateBucketCommand({ Bucket, ...(ACL && { ACL }) }))
  expect((await again()).Location).toBe(`/s3/${Bucket}`)
  await again('private')
  expect((await ana.client.send(new ListObjectsV2Command({ Bucket }))).KeyCount).toBe(1)
  await expect(again('public-read')).rejects.toEqual(failure('BucketAlreadyOwnedByYou', 409))
  onTestFinished(() => void (s3.platform.api.s3Region = 'us-east-1'))
  s3.platform.api.s3Region = 'eu-central-1'
  await expect(again()).rejects.toEqual(failure('BucketAlreadyOwnedByYou', 409))
})

test('any region will do, in the body as in the signature', async () => {
  const Bucket = bucketName()
  const configured = { Bucket, CreateBucketConfiguration: { LocationConstraint: 'eu-west-3' as const } }
  expect((await ana.client.send(new CreateBucketCommand(configured))).Location).toBe(`/s3/${Bucket}`)
  expect((await sendSigned(s3, { path: `/s3/${Bucket}` }, { ...ana, region: 'moon-1' })).status).toBe(200)
  const tagged = { Bucket: bucketName(), CreateBucketConfiguration: { Tags: [{ Key: 'a', Value: 'b' }] } }
  await expect(ana.client.send(new CreateBucketCommand(tagged))).rejects.toEqual(failure('NotImplemented', 501))
})

test.each(['ab', 'UPPER', 'under_score', '-lead', 'dots.in.it', 'staging.bucket', 'a'.repeat(64)])(
  'a bucket cannot be called %s',
  async (Bucket) => {
    const answer = await sendSigned(s3, { method: 'PUT', path: `/s3/${Bucket}` }, ana)
    expect(answer).toMatchObject({ status: 400, code: 'InvalidBucketName' })
  },
)

test('a bucket of preview is named with its environment, and is another than that of production (D34)', async () => {
  const Bucket = await newBucket(['a'])
  await ana.client.send(new CreateBucketCommand({ Bucket: `preview.${Bucket}` }))
  expect((await ana.client.send(new ListObjectsV2Command({ Bucket: `preview.${Bucket}` }))).KeyCount).toBe(0)
  const { Buckets } = await ana.client.send(new ListBucketsCommand({}))
  expect(Buckets?.map(({ Name }) => Name)).toEqual(expect.arrayContaining([Bucket, `preview.${Bucket}`]))
})

test('buckets are listed in pages, by prefix, and those of others never', async () => {
  const user = await newS3User(s3)
  const names = ['aaa-1', 'aaa-2', 'aaa-3', 'bbb-1']
  for (const Bucket of names) await user.client.send(new CreateBucketCommand({ Bucket }))
  const all = await user.client.send(new ListBucketsCommand({}))
  expect(all.Buckets?.map(({ Name }) => Name)).toEqual(names)
  expect(all.Owner?.ID).toBe(user.owner.applicationId)
  const first = await user.client.send(new ListBucketsCommand({ MaxBuckets: 2, Prefix: 'aaa' }))
  expect(first.Buckets?.map(({ Name }) => Name)).toEqual(['aaa-1', 'aaa-2'])
  const { ContinuationToken } = first
  const rest = await user.client.send(new ListBucketsCommand({ MaxBuckets: 2, Prefix: 'aaa', ContinuationToken }))
  expect(rest.Buckets?.map(({ Name }) => Name)).toEqual(['aaa-3'])
  expect(rest.ContinuationToken).toBeUndefined()
})

test('a bucket created public-read is public, and its ACL says that anyone may read', async () => {
  const Bucket = bucketName()
  await ana.client.send(new CreateBucketCommand({ Bucket, ACL: 'public-read' }))
  const { Grants } = await ana.client.send(new GetBucketAclCommand({ Bucket }))
  expect(Grants?.map(({ Permission, Grantee }) => [Permission, Grantee?.Type])).toEqual([
    ['FULL_CONTROL', 'CanonicalUser'],
    ['READ', 'Group'],
  ])
  const own = await ana.client.send(new GetBucketAclCommand({ Bucket: await newBucket() }))
  expect(own.Grants).toHaveLength(1)
  for (const more of [{ ACL: 'public-read-write' as const }, { GrantRead: 'id=x' }])
    await expect(ana.client.send(new CreateBucketCommand({ Bucket: bucketName(), ...more }))).rejects.toEqual(
      failure('AccessControlListNotSupported', 400),
    )
  await expect(
    ana.client.send(new CreateBucketCommand({ Bucket: bucketName(), ObjectLockEnabledForBucket: true })),
  ).rejects.toEqual(failure('NotImplemented', 501))
})

const tricky = ['a!b', 'a-1', 'a.txt', 'a/x', 'a/y/z', 'a0', 'b/', 'b/1', 'c', 'é', '🦊/x']

interface Listed {
  Contents?: { Key?: string }[]
  CommonPrefixes?: { Prefix?: string }[]
}
const namesIn = ({ Contents = [], CommonPrefixes = [] }: Listed) => [
  ...Contents.map(({ Key }) => Key ?? ''),
  ...CommonPrefixes.map(({ Prefix }) => Prefix ?? ''),
]
const inBytes = (a: string, b: string) => Buffer.compare(Buffer.from(a), Buffer.from(b))

/** The expected list, computed the simple way. */
function expected(keys: readonly string[], prefix: string, delimiter: string): string[] {
  const value = keys
    .filter((key) => key.startsWith(prefix))
    .map((key) => {
      const index = delimiter === '' ? -1 : key.indexOf(delimiter, prefix.length)
      return index < 0 ? key : key.slice(0, index + delimiter.length)
    })
  return [...new Set(value)].sort(inBytes)
}

test.each([1, 2, 3, 1_000])(
  'lists in pages of %s hold every key and common prefix once, in both versions',
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
      const second: string[] = []
      for (let ContinuationToken: string | undefined; ;) {
        const page = await ana.client.send(
          new ListObjectsV2Command({ Bucket, Prefix, Delimiter, MaxKeys, ContinuationToken }),
        )
        expect(page.KeyCount).toBe(namesIn(page).length)
        second.push(...namesIn(page))
        if (!page.IsTruncated) break
        ContinuationToken = page.NextContinuationToken
      }
      const first: string[] = []
      for (let Marker: string | undefined; ;) {
        const page = await ana.client.send(new ListObjectsCommand({ Bucket, Prefix, Delimiter, MaxKeys, Marker }))
        first.push(...namesIn(page))
        if (!page.IsTruncated) break
        Marker = page.NextMarker
      }
      const all = expected(tricky, Prefix, Delimiter)
      expect(second.toSorted(inBytes)).toEqual(all)
      expect(first.toSorted(inBytes)).toEqual(all)
    }
  },
)

test('start-after and marker begin behind a key, whether it exists or not', async () => {
  const Bucket = await newBucket(['a', 'b', 'c'])
  expect(namesIn(await ana.client.send(new ListObjectsV2Command({ Bucket, StartAfter: 'a' })))).toEqual(['b', 'c'])
  expect(namesIn(await ana.client.send(new ListObjectsV2Command({ Bucket, StartAfter: 'aa' })))).toEqual(['b', 'c'])
  expect(namesIn(await ana.client.send(new ListObjectsCommand({ Bucket, Marker: 'b' })))).toEqual(['c'])
  expect(namesIn(await ana.client.send(new ListObjectsCommand({ Bucket, Marker: 'z' })))).toEqual([])
})

test('a list of no keys is over, and a list counts no more than 1,000', async () => {
  const Bucket = await newBucket(['a'])
  expect(await ana.client.send(new ListObjectsV2Command({ Bucket, MaxKeys: 0 }))).toMatchObject({
    KeyCount: 0,
    IsTruncated: false,
  })
  expect((await ana.client.send(new ListObjectsV2Command({ Bucket, MaxKeys: 5_000 }))).MaxKeys).toBe(1_000)
  for (const query of ['list-type=2&max-keys=-1', 'list-type=2&max-keys=x', 'list-type=1', 'encoding-type=xml'])
    expect(await sendSigned(s3, { path: `/s3/${Bucket}?${query}` }, ana)).toMatchObject({
      status: 400,
      code: 'InvalidArgument',
    })
})

test('a continuation token of another list, or one that was changed, is refused', async () => {
  const Bucket = await newBucket(['a', 'b', 'c'])
  const { NextContinuationToken: token = '' } = await ana.client.send(new ListObjectsV2Command({ Bucket, MaxKeys: 1 }))
  for (const more of [{ Prefix: 'b' }, { ContinuationToken: `${token}x` }, { ContinuationToken: 'b' }])
    await expect(
      ana.client.send(new ListObjectsV2Command({ Bucket, ContinuationToken: token, ...more })),
    ).rejects.toEqual(failure('InvalidArgument', 400))
})

test('an empty continuation token begins the list, or begins it where start-after says, and is echoed', async () => {
  const Bucket = await newBucket(['a', 'b'])
  const list = (query: string) => sendSigned(s3, { path: `/s3/${Bucket}?list-type=2&continuation-token=${query}` }, ana)
  const whole = await list('')
  expect(whole).toMatchObject({ status: 200 })
  expect(whole.text).toContain(
    '<KeyCount>2</KeyCount><IsTruncated>false</IsTruncated><ContinuationToken></ContinuationToken>',
  )
  expect((await list('&start-after=a')).text).toContain('<KeyCount>1</KeyCount>')
})

test('a prefix or delimiter of a control character is written as a reference, or as in a URL, and selects nothing', async () => {
  const Bucket = await newBucket(['a', 'b/c'])
  for (const [query, prefix, delimiter] of [
    ['?prefix=%0A&delimiter=%0B', '&#xa;', '&#xb;'],
    ['?prefix=%0A&delimiter=%0B&encoding-type=url', '%0A', '%0B'],
  ] as const) {
    for (const more of ['', '&list-type=2']) {
      const { status, text } = await sendSigned(s3, { path: `/s3/${Bucket}${query}${more}` }, ana)
      expect(status).toBe(200)
      expect(text).toContain(`<Prefix>${prefix}</Prefix>`)
      expect(text).toContain(`<Delimiter>${delimiter}</Delimiter>`)
      expect(text).not.toContain('<Key>')
    }
  }
})

test('keys that XML cannot carry are listed with encoding-type=url, and as references without it', async () => {
  const keys = ['a b+c', 'ctl\u0001', 'new\nline', 'ü']
  const Bucket = await newBucket(keys)
  const { Contents, EncodingType } = await ana.client.send(new ListObjectsV2Command({ Bucket, EncodingType: 'url' }))
  expect(EncodingType).toBe('url')
  expect(Contents?.map(({ Key }) => decodeURIComponent(Key ?? ''))).toEqual(keys)
  for (const query of ['?list-type=2', '', '?versions']) {
    const { text } = await sendSigned(s3, { path: `/s3/${Bucket}${query}` }, ana)
    expect([...text.matchAll(/<Key>(.*?)<\/Key>/g)].map(([, key]) => key)).toEqual([
      'a b+c',
      'ctl&#x1;',
      'new&#xa;line',
      'ü',
    ])
  }
})

test('a list says what S3 says of each object, and its owner where that is asked', async () => {
  const Bucket = await newBucket(['a'])
  const { Contents } = await ana.client.send(new ListObjectsV2Command({ Bucket, FetchOwner: true }))
  expect(Contents).toEqual([
    {
      Key: 'a',
      Size: 1,
      ETag: '"0cc175b9c0f1b6a831c399e269772661"',
      LastModified: expect.any(Date) as Date,
      StorageClass: 'STANDARD',
      ChecksumAlgorithm: ['CRC32'],
      ChecksumType: 'FULL_OBJECT',
      Owner: { ID: ana.owner.applicationId, DisplayName: ana.owner.applicationId },
    },
  ])
})

const remove = (Bucket: string, Objects: { Key: string; ETag?: string; VersionId?: string }[], Quiet = false) =>
  ana.client.send(new DeleteObjectsCommand({ Bucket, Delete: { Objects, Quiet } }))

test('DeleteObjects deletes what is there, reports what is not alike, and quietly reports nothing', async () => {
  const Bucket = await newBucket(['a', 'b', ' spaces ', '<&>'])
  const { Deleted, Errors } = await remove(Bucket, [{ Key: 'a' }, { Key: 'none' }, { Key: ' spaces ' }, { Key: '<&>' }])
  expect(Deleted?.map(({ Key }) => Key)).toEqual(['a', 'none', ' spaces ', '<&>'])
  expect(Errors).toBeUndefined()
  expect((await remove(Bucket, [{ Key: 'b' }], true)).Deleted).toBeUndefined()
  expect((await ana.client.send(new ListObjectsV2Command({ Bucket }))).KeyCount).toBe(0)
})

test('DeleteObjects reports each failure by itself', async () => {
  const Bucket = await newBucket(['a', 'b'])
  const { Deleted, Errors } = await remove(Bucket, [
    { Key: 'a', ETag: '"other"' },
    { Key: 'b', VersionId: 'abc' },
    { Key: 'k'.repeat(1_025) },
    { Key: 'a', ETag: '"0cc175b9c0f1b6a831c399e269772661"' },
  ])
  expect(Errors?.map(({ Code }) => Code)).toEqual(['PreconditionFailed', 'NoSuchVersion', 'KeyTooLongError'])
  expect(Deleted?.map(({ Key }) => Key)).toEqual(['a'])
})

test('DeleteObjects takes 1,000 keys and not one more', async () => {
  const Bucket = await newBucket(['key-999'])
  const keys = (count: number) => Array.from({ length: count }, (_, i) => ({ Key: `key-${i}` }))
  expect((await remove(Bucket, keys(1_000))).Deleted).toHaveLength(1_000)
  await expect(remove(Bucket, keys(1_001))).rejects.toEqual(failure('MalformedXML', 400))
  await expect(remove(Bucket, [])).rejects.toEqual(failure('MalformedXML', 400))
})

test.each([
  ['without a namespace, as s3cmd sends it', '<Delete><Object><Key>a</Key></Object></Delete>', 200],
  [
    'with entities that multiply',
    '<!DOCTYPE Delete [<!ENTITY a "aaaaaaaaaa">]><Delete><Object><Key>&a;</Key></Object></Delete>',
    400,
  ],
  [
    'with an external entity',
    '<!DOCTYPE Delete [<!ENTITY a SYSTEM "file:///etc/passwd">]><Delete><Object><Key>&a;</Key></Object></Delete>',
    400,
  ],
  ['cut off', '<Delete><Object><Key>a', 400],
  ['with an empty key', '<Delete><Object><Key></Key></Object></Delete>', 400],
  ['that is none', 'nonsense', 400],
  ['over 8 MiB', `<Delete>${' '.repeat(8_400_000)}</Delete>`, 400],
])('a document of deletions %s is answered by its status', async (_, body, status) => {
  const Bucket = await newBucket()
  const answer = await sendSigned(s3, { method: 'POST', path: `/s3/${Bucket}?delete`, body }, ana)
  expect(answer.status).toBe(status)
  if (status === 400) expect(['MalformedXML', 'MaxMessageLengthExceeded']).toContain(answer.code)
})

test.each([
  ['PUT', '?versioning', 'PutBucketVersioning'],
  ['PUT', '?replication', 'PutBucketReplication'],
  ['PUT', '?lifecycle', 'PutBucketLifecycleConfiguration'],
  ['PUT', '/key?annotation&annotationName=a', 'PutObjectAnnotation'],
  ['POST', '/key?select&select-type=2', 'SelectObjectContent'],
])('%s %s is 501 and names %s', async (method, rest, name) => {
  const Bucket = await newBucket()
  const answer = await sendSigned(s3, { method, path: `/s3/${Bucket}${rest}` }, ana)
  expect(answer).toMatchObject({ status: 501, code: 'NotImplemented' })
  expect(answer.text).toContain(`<Message>${name} is not implemented</Message>`)
})
