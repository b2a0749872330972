import { createHash, randomBytes } from 'node:crypto'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { Readable } from 'node:stream'
import { text as textOf } from 'node:stream/consumers'
import { CreateBucketCommand, GetObjectCommand, HeadObjectCommand, PutObjectCommand } from '@aws-sdk/client-s3'
import { Upload } from '@aws-sdk/lib-storage'
import { getSignedUrl } from '@aws-sdk/s3-request-presigner'
import { Client } from 'minio'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { isDrill } from '@platform/testkit/test-environment'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { requireClientProgram, findClients, runClient } from './client-process.ts'
import { bucketName, newS3User, type S3User, startS3, type TestS3 } from './s3.ts'

const MIB = 1_024 ** 2
const LONG = 600_000
const LARGE_MB = isDrill ? 200 : 40
const FOLDERS = isDrill ? 100 : 10
const FILES_EACH = 100
const FILES = FOLDERS * FILES_EACH
let platform: TestPlatform
let s3: TestS3
/** The same at the root, for clients whose endpoint takes no path. */
let root: TestS3
let ana: S3User
let folder: string
beforeAll(async () => {
  platform = await startPlatform({ s3Domain: 's3.localhost' })
  s3 = await startS3(platform)
  root = await startS3(platform, 'root')
  ana = await newS3User(s3)
  folder = await mkdtemp(join(tmpdir(), 'platform-s3-clients-'))
})
afterAll(async () => {
  await s3.close()
  await root.close()
  await platform.close()
  await rm(folder, { recursive: true, force: true })
})

const md5 = (bytes: Buffer): string => createHash('md5').update(bytes).digest('hex')

/** A file of random bytes, and their hash. */
async function newFile(name: string, size: number): Promise<{ path: string; hash: string }> {
  const path = join(folder, name)
  const bytes = randomBytes(size)
  await mkdir(dirname(path), { recursive: true })
  await writeFile(path, bytes)
  return { path, hash: md5(bytes) }
}
const hashOf = async (path: string): Promise<string> => md5(await readFile(path))

/** A tree with the names that are awkward: spaces, plus, percent, not ASCII, an empty file. */
async function newTree(name: string): Promise<string> {
  for (const file of ['a.txt', 'sub/b c.txt', 'sub/deep/plus+.txt', 'sub/100%.txt', 'ü/ключ.txt', 'sub/deep/z.bin'])
    await newFile(join(name, file), 1_000)
  await newFile(join(name, 'empty'), 0)
  return join(folder, name)
}

async function newBucket(): Promise<string> {
  const Bucket = bucketName()
  await ana.client.send(new CreateBucketCommand({ Bucket }))
  return Bucket
}

test(
  'the SDK’s lib-storage uploads a stream of unknown length in parts, and its presigner shares it',
  { timeout: LONG },
  async () => {
    const Bucket = await newBucket()
    const bytes = randomBytes(17 * MIB)
    const pieces = Array.from({ length: 17 }, (_, i) => bytes.subarray(i * MIB, (i + 1) * MIB))
    const upload = new Upload({ client: ana.client, params: { Bucket, Key: 'large', Body: Readable.from(pieces) } })
    const made = await upload.done()
    expect(made.ETag).toMatch(/^"[0-9a-f]{32}-4"$/)
    const url = await getSignedUrl(ana.client, new GetObjectCommand({ Bucket, Key: 'large' }))
    expect(md5(Buffer.from(await (await fetch(url)).arrayBuffer()))).toBe(md5(bytes))
    const put = await getSignedUrl(ana.client, new PutObjectCommand({ Bucket, Key: 'shared', ContentType: 'a/b' }))
    expect((await fetch(put, { method: 'PUT', body: 'x', headers: { 'content-type': 'a/b' } })).status).toBe(200)
    expect((await ana.client.send(new HeadObjectCommand({ Bucket, Key: 'shared' }))).ContentLength).toBe(1)
  },
)

const awsCommands = await findClients(['/usr/bin/aws', 'aws'], ['--version'])

test.for(awsCommands.length > 0 ? awsCommands : ['aws'])(
  `%s copies ${LARGE_MB} MB, syncs a tree, presigns and removes`,
  { timeout: LONG },
  async (command, context) => {
    requireClientProgram(context, 'awscli', awsCommands)
    const env = {
      AWS_ACCESS_KEY_ID: ana.key.id,
      AWS_SECRET_ACCESS_KEY: ana.key.secret,
      // In us-east-1 older ones presign by version 2, which is refused.
      AWS_DEFAULT_REGION: 'eu-central-1',
      AWS_CONFIG_FILE: join(folder, 'none'),
      AWS_SHARED_CREDENTIALS_FILE: join(folder, 'none'),
      AWS_EC2_METADATA_DISABLED: 'true',
      AWS_PAGER: '',
    }
    const aws = (...args: string[]) => runClient(command, ['--endpoint-url', s3.url, ...args], env)
    const bucket = bucketName()
    await aws('s3', 'mb', `s3://${bucket}`)
    expect(await aws('s3', 'ls')).toContain(bucket)

    const { path, hash } = await newFile(`aws-${bucket}.bin`, LARGE_MB * 1_000_000)
    await aws('s3', 'cp', '--no-progress', path, `s3://${bucket}/large.bin`)
    await aws('s3', 'cp', '--no-progress', `s3://${bucket}/large.bin`, `${path}.back`)
    expect(await hashOf(`${path}.back`)).toBe(hash)
    await aws('s3', 'cp', '--no-progress', `s3://${bucket}/large.bin`, `s3://${bucket}/copied.bin`)
    await aws('s3', 'mv', '--no-progress', `s3://${bucket}/copied.bin`, `s3://${bucket}/moved.bin`)

    const tree = await newTree(`aws-tree-${bucket}`)
    expect((await aws('s3', 'sync', '--no-progress', tree, `s3://${bucket}/tree`)).match(/^upload/gm)).toHaveLength(7)
    expect(await aws('s3', 'sync', '--no-progress', tree, `s3://${bucket}/tree`)).toBe('')
    await aws('s3', 'sync', '--no-progress', `s3://${bucket}/tree`, `${tree}-back`)
    for (const name of ['sub/b c.txt', 'ü/ключ.txt', 'empty', 'sub/deep/plus+.txt'])
      expect(await hashOf(join(`${tree}-back`, name))).toBe(await hashOf(join(tree, name)))

    const url = (await aws('s3', 'presign', `s3://${bucket}/tree/a.txt`, '--expires-in', '60')).trim()
    expect(md5(Buffer.from(await (await fetch(url)).arrayBuffer()))).toBe(await hashOf(join(tree, 'a.txt')))

    const tags = ['--bucket', bucket, '--key', 'tree/a.txt']
    await aws('s3api', 'put-object-tagging', ...tags, '--tagging', 'TagSet=[{Key=a,Value=b}]')
    expect(await aws('s3api', 'get-object-tagging', ...tags)).toContain('"Key": "a"')
    const api = (operation: string, ...args: string[]) => aws('s3api', operation, '--bucket', bucket, ...args)
    await expect(api('get-bucket-policy')).rejects.toThrow('NoSuchBucketPolicy')
    await expect(api('put-bucket-policy', '--policy', '{}')).rejects.toThrow('PutBucketPolicy is not implemented')
    await api('put-bucket-acl', '--acl', 'private')
    await api('put-bucket-tagging', '--tagging', 'TagSet=[{Key=team,Value=web}]')
    expect(await api('get-bucket-tagging')).toContain('"Key": "team"')
    await api('put-bucket-cors', '--cors-configuration', 'CORSRules=[{AllowedOrigins=[*],AllowedMethods=[GET]}]')
    expect(await api('get-bucket-cors')).toContain('"AllowedMethods"')
    expect(await api('list-object-versions', '--prefix', 'tree/a')).toContain('"VersionId": "null"')
    await expect(aws('s3', 'rb', `s3://${bucket}`)).rejects.toThrow('BucketNotEmpty')
    await aws('s3', 'rb', '--force', `s3://${bucket}`)
  },
)

const rclones = await findClients(['rclone'], ['version'])

test(
  `rclone syncs ${FILES} files, finds them the same, copies on the server and streams`,
  { timeout: LONG },
  async (context) => {
    requireClientProgram(context, 'rclone', rclones)
    const env = {
      RCLONE_CONFIG: join(folder, 'none'),
      RCLONE_CONFIG_OURS_TYPE: 's3',
      RCLONE_CONFIG_OURS_PROVIDER: 'Other',
      RCLONE_CONFIG_OURS_ACCESS_KEY_ID: ana.key.id,
      RCLONE_CONFIG_OURS_SECRET_ACCESS_KEY: ana.key.secret,
      RCLONE_CONFIG_OURS_ENDPOINT: s3.url,
      RCLONE_RETRIES: '1',
    }
    const rclone = (...args: string[]) => runClient('rclone', args, env)
    const bucket = bucketName()
    const many = join(folder, 'many')
    for (let d = 0; d < FOLDERS; d++) {
      await mkdir(join(many, `dir-${d}`), { recursive: true })
      await Promise.all(
        Array.from({ length: FILES_EACH }, (_, i) =>
          writeFile(join(many, `dir-${d}`, `file ${i}.txt`), `${d} ${i} `.repeat(10)),
        ),
      )
    }
    await rclone('mkdir', `ours:${bucket}`)
    await rclone('sync', '--transfers', '16', '--checkers', '16', many, `ours:${bucket}/many`)
    await rclone('check', '--one-way', many, `ours:${bucket}/many`)
    expect(JSON.parse(await rclone('size', '--json', `ours:${bucket}/many`))).toMatchObject({ count: FILES })
    await rclone('sync', `ours:${bucket}/many/dir-1`, `ours:${bucket}/copied`)
    await rclone('check', join(many, 'dir-1'), `ours:${bucket}/copied`)

    const tree = await newTree('rclone-tree')
    await rclone('sync', tree, `ours:${bucket}/tree`)
    await rclone('check', '--download', tree, `ours:${bucket}/tree`)
    const { path, hash } = await newFile('rclone.bin', 30 * MIB)
    await rclone('copyto', '--s3-upload-cutoff', '10M', '--s3-chunk-size', '5M', path, `ours:${bucket}/large.bin`)
    // A time that was changed is set by a copy of the object onto itself.
    await rclone('touch', '--no-create', '--timestamp', '2020-01-01T00:00:00', `ours:${bucket}/large.bin`)
    await rclone('moveto', `ours:${bucket}/large.bin`, `ours:${bucket}/moved.bin`)
    await rclone('copyto', `ours:${bucket}/moved.bin`, `${path}.back`)
    expect(await hashOf(`${path}.back`)).toBe(hash)
    await rclone('settier', 'STANDARD', `ours:${bucket}/moved.bin`)
    await rclone('purge', `ours:${bucket}/copied`)
    expect(await rclone('lsf', `ours:${bucket}`)).not.toContain('copied')
  },
)

const s3cmds = await findClients(['s3cmd'], ['--version'])

test('s3cmd, told a host with a path, puts, lists, syncs, copies and deletes', { timeout: LONG }, async (context) => {
  requireClientProgram(context, 's3cmd', s3cmds)
  const config = join(folder, `s3cfg-${bucketName()}`)
  await writeFile(
    config,
    `[default]\naccess_key = ${ana.key.id}\nsecret_key = ${ana.key.secret}\nhost_base = ${s3.host}/s3\nhost_bucket = ${s3.host}/s3\nuse_https = False\nsignature_v2 = False\n`,
  )
  const s3cmd = (...args: string[]) => runClient('s3cmd', ['-c', config, '--no-progress', ...args], {})
  const bucket = bucketName()
  await s3cmd('mb', `s3://${bucket}`)
  expect(await s3cmd('ls')).toContain(`s3://${bucket}`)
  const { path, hash } = await newFile(`${bucket}.bin`, 17 * MIB)
  await s3cmd('put', '--multipart-chunk-size-mb=5', path, `s3://${bucket}/large file.bin`)
  await s3cmd('get', `s3://${bucket}/large file.bin`, `${path}.back`)
  expect(await hashOf(`${path}.back`)).toBe(hash)
  const tree = await newTree(`${bucket}-tree`)
  await s3cmd('sync', `${tree}/`, `s3://${bucket}/tree/`)
  expect((await s3cmd('ls', '-r', `s3://${bucket}/tree/`)).trim().split('\n')).toHaveLength(7)
  await s3cmd('sync', `s3://${bucket}/tree/`, `${tree}-back/`)
  expect(await hashOf(join(`${tree}-back`, 'ü/ключ.txt'))).toBe(await hashOf(join(tree, 'ü/ключ.txt')))
  await s3cmd('cp', `s3://${bucket}/tree/a.txt`, `s3://${bucket}/copy.txt`)
  await s3cmd('mv', `s3://${bucket}/copy.txt`, `s3://${bucket}/moved.txt`)
  expect(await s3cmd('info', `s3://${bucket}/moved.txt`)).toContain('MD5 sum')
  await writeFile(
    `${path}.cors`,
    '<CORSConfiguration><CORSRule><AllowedOrigin>*</AllowedOrigin><AllowedMethod>GET</AllowedMethod></CORSRule></CORSConfiguration>',
  )
  await s3cmd('setcors', `${path}.cors`, `s3://${bucket}`)
  expect(await s3cmd('info', `s3://${bucket}`)).toContain('<AllowedOrigin>')
  await s3cmd('del', '-r', '--force', `s3://${bucket}`)
  await s3cmd('rb', `s3://${bucket}`)
})

const pythons = await findClients(['/usr/bin/python3', 'python3'], ['-c', 'import boto3; print(boto3.__version__)'])

/** Where S3 is, and how boto3 is told to name a bucket there. */
const places = [
  ['below /s3', () => s3.url, 'auto'],
  ['at the root', () => root.url, 'path'],
  ['with buckets as hosts', () => root.url.replace('localhost', 's3.localhost'), 'virtual'],
] as const

test.for(
  (pythons.length > 0 ? pythons : ['python3']).flatMap((python) => places.map((place) => [python, ...place] as const)),
)('boto3 of %s does what its guide shows, %s', { timeout: LONG }, async ([python, , urlOf, style], context) => {
  requireClientProgram(context, 'boto3', pythons)
  const env = {
    URL: urlOf(),
    STYLE: style,
    KEY: ana.key.id,
    SECRET: ana.key.secret,
    BUCKET: bucketName(),
    AWS_EC2_METADATA_DISABLED: 'true',
  }
  const script = new URL('s3-boto3.py', import.meta.url).pathname
  expect(await runClient(python, [script], env)).toContain('all done')
})

test('MinIO’s client, which knows host and port alone, does what its guide shows', { timeout: LONG }, async () => {
  const { port } = new URL(root.url)
  const client = new Client({
    endPoint: 'localhost',
    port: Number(port),
    useSSL: false,
    accessKey: ana.key.id,
    secretKey: ana.key.secret,
    partSize: 5 * MIB,
  })
  const bucket = bucketName()
  await client.makeBucket(bucket)
  expect(await client.bucketExists(bucket)).toBe(true)
  expect(await client.bucketExists(bucketName())).toBe(false)
  expect((await client.listBuckets()).map(({ name }) => name)).toContain(bucket)

  await client.putObject(bucket, 'a b/ü+.txt', 'hello', 5, { 'Content-Type': 'text/plain', 'X-Amz-Meta-One': '1' })
  expect(await client.statObject(bucket, 'a b/ü+.txt')).toMatchObject({ size: 5, metaData: { one: '1' } })
  const { path, hash } = await newFile(`minio-${bucket}.bin`, 12 * MIB)
  await client.fPutObject(bucket, 'large.bin', path)
  expect((await client.statObject(bucket, 'large.bin')).etag).toMatch(/-3$/)
  await client.fGetObject(bucket, 'large.bin', `${path}.back`)
  expect(await hashOf(`${path}.back`)).toBe(hash)
  expect(await textOf(await client.getPartialObject(bucket, 'a b/ü+.txt', 1, 2))).toBe('el')
  const names = async (prefix: string, recursive: boolean) =>
    (await client.listObjectsV2(bucket, prefix, recursive).toArray()).map(({ name, prefix: common }) => name ?? common)
  expect(await names('', false)).toEqual(['large.bin', 'a b/'])
  expect(await names('', true)).toEqual(['a b/ü+.txt', 'large.bin'])

  const get = await client.presignedGetObject(bucket, 'a b/ü+.txt', 60)
  expect(await (await fetch(get)).text()).toBe('hello')
  const put = await client.presignedPutObject(bucket, 'shared', 60)
  expect((await fetch(put, { method: 'PUT', body: 'by URL' })).status).toBe(200)
  const policy = client.newPostPolicy()
  policy.setBucket(bucket)
  policy.setKeyStartsWith('posted/')
  policy.setExpires(new Date(platform.clock.now().getTime() + 60_000))
  policy.setContentLengthRange(1, 100_000)
  const { postURL, formData } = await client.presignedPostPolicy(policy)
  const form = new FormData()
  for (const [name, value] of Object.entries({ ...formData, key: 'posted/${filename}' })) form.append(name, value)
  form.append('file', new File(['x'.repeat(60_000)], 'cat.txt'))
  expect((await fetch(postURL, { method: 'POST', body: form })).status).toBe(204)
  expect((await client.statObject(bucket, 'posted/cat.txt')).size).toBe(60_000)

  await client.removeObjects(bucket, ['large.bin', 'shared', 'posted/cat.txt'])
  await expect(client.removeBucket(bucket)).rejects.toMatchObject({ code: 'BucketNotEmpty' })
  await client.removeObject(bucket, 'a b/ü+.txt')
  await client.removeBucket(bucket)
})

const restics = await findClients(['restic'], ['version'])

test(
  'restic, which takes the first segment for the bucket, keeps backups and restores them',
  { timeout: LONG },
  async (context) => {
    requireClientProgram(context, 'restic', restics)
    const bucket = bucketName()
    const env = {
      RESTIC_REPOSITORY: `s3:${root.url}/${bucket}/backups`,
      RESTIC_PASSWORD: 'correct horse',
      AWS_ACCESS_KEY_ID: ana.key.id,
      AWS_SECRET_ACCESS_KEY: ana.key.secret,
    }
    const restic = (...args: string[]) => runClient('restic', ['--no-cache', ...args], env)
    const tree = await newTree(`restic-${bucket}`)
    const { hash } = await newFile(`restic-${bucket}/large.bin`, 20 * MIB)
    await restic('init')
    await restic('backup', tree)
    await newFile(`restic-${bucket}/later.txt`, 2_000)
    await restic('backup', tree)
    expect(JSON.parse(await restic('snapshots', '--json'))).toHaveLength(2)
    expect(await restic('check', '--read-data')).toContain('no errors were found')
    const back = `${tree}-back`
    await restic('restore', 'latest', '--target', back)
    expect(await hashOf(join(back, tree, 'large.bin'))).toBe(hash)
    for (const name of ['later.txt', 'sub/b c.txt', 'ü/ключ.txt', 'empty', 'sub/100%.txt'])
      expect(await hashOf(join(back, tree, name))).toBe(await hashOf(join(tree, name)))
    await restic('forget', '--keep-last', '1', '--prune')
    expect(JSON.parse(await restic('snapshots', '--json'))).toHaveLength(1)
    expect(await restic('check', '--read-data')).toContain('no errors were found')
  },
)

const curls = await findClients(['curl'], ['--version'])

test('curl signs what it sends and reads, as the guide shows', { timeout: LONG }, async (context) => {
  requireClientProgram(context, 'curl', curls)
  const bucket = await newBucket()
  const { path, hash } = await newFile('by curl.bin', 300_000)
  const curl = (...args: string[]) =>
    runClient(
      'curl',
      ['-sSf', '--aws-sigv4', 'aws:amz:local:s3', '--user', `${ana.key.id}:${ana.key.secret}`, ...args],
      {},
    )
  // Before version 8 it signs the hash of no body, unless it is told another.
  await curl('-H', 'x-amz-content-sha256: UNSIGNED-PAYLOAD', '-T', path, `${s3.url}/${bucket}/sub/file.bin`)
  await curl('-o', `${path}.back`, `${s3.url}/${bucket}/sub/file.bin`)
  expect(await hashOf(`${path}.back`)).toBe(hash)
  expect(await curl(`${s3.url}/${bucket}?list-type=2`)).toContain('<Key>sub/file.bin</Key>')
  await curl('-X', 'DELETE', `${s3.url}/${bucket}/sub/file.bin`)
})
