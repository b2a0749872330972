// engines: s3
import { createHash, createHmac, randomBytes } from 'node:crypto'
import { connect } from 'node:net'
import { Readable } from 'node:stream'
import { crc32 } from 'node:zlib'
import { CreateBucketCommand, GetObjectCommand, PutObjectCommand } from '@aws-sdk/client-s3'
import { createPresignedPost, type PresignedPostOptions } from '@aws-sdk/s3-presigned-post'
import { amzTimestamp } from '@platform/s3-protocol/signature/claim'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { eq } from 'drizzle-orm'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  bucketName,
  newS3User,
  type S3Answer,
  type S3User,
  sendRaw,
  sendSigned,
  sha256,
  sign,
  signingKeyOf,
  startS3,
  type TestS3,
} from '../../../../test/s3.ts'
import { blobs } from '../objects/table.ts'

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

const path = (key: string) => `/s3/${Bucket}/${key}`
const put = (key: string, body: Buffer | string, headers: Record<string, string> = {}, payloadHash?: string) =>
  sendSigned(s3, { method: 'PUT', path: path(key), body, headers }, { ...ana, ...(payloadHash && { payloadHash }) })
const read = (key: string) => sendSigned(s3, { path: path(key) }, ana)

/** Expects that nothing was stored: no object, and no orphaned bytes. */
async function expectNothing(key: string): Promise<void> {
  expect((await read(key)).code).toBe('NoSuchKey')
  expect(await platform.api.db.select().from(blobs).where(eq(blobs.state, 'pending'))).toEqual([])
}

// Too large for a row, so the driver has written it before it turns out to be wrong.
const body = randomBytes(50_000)
const base64 = (name: string, bytes = body) => createHash(name).update(bytes).digest('base64')

test.each([
  ['a body unlike its signed hash', {}, sha256('other'), 'XAmzContentSHA256Mismatch'],
  ['a wrong Content-MD5', { 'content-md5': base64('md5', Buffer.from('x')) }, undefined, 'BadDigest'],
  ['a Content-MD5 that is none', { 'content-md5': 'nonsense' }, undefined, 'InvalidDigest'],
  ['a wrong CRC-32', { 'x-amz-checksum-crc32': 'AAAAAA==' }, undefined, 'BadDigest'],
  ['a wrong CRC-32C', { 'x-amz-checksum-crc32c': 'AAAAAA==' }, undefined, 'BadDigest'],
  ['a wrong CRC-64', { 'x-amz-checksum-crc64nvme': 'AAAAAAAAAAA=' }, undefined, 'BadDigest'],
  ['a wrong SHA-1', { 'x-amz-checksum-sha1': base64('sha1', Buffer.from('x')) }, undefined, 'BadDigest'],
  ['a wrong SHA-256', { 'x-amz-checksum-sha256': base64('sha256', Buffer.from('x')) }, undefined, 'BadDigest'],
])('a PUT with %s stores nothing', async (_, headers, payloadHash, code) => {
  expect(await put('wrong', body, headers, payloadHash)).toMatchObject({ status: 400, code })
  await expectNothing('wrong')
})

test('an unsigned payload is taken as it comes, and what is said of it is held to', async () => {
  const right = { 'content-md5': base64('md5'), 'x-amz-checksum-sha256': base64('sha256') }
  const answer = await put('unsigned', body, right, 'UNSIGNED-PAYLOAD')
  expect(answer).toMatchObject({
    status: 200,
    headers: {
      etag: `"${createHash('md5').update(body).digest('hex')}"`,
      'x-amz-checksum-sha256': base64('sha256'),
      'x-amz-checksum-type': 'FULL_OBJECT',
    },
  })
  expect((await read('unsigned')).body.equals(body)).toBe(true)
})

test('a body of no length is MissingContentLength, and one over 5 GiB is never asked for', async () => {
  const time = platform.clock.now()
  const unsized = sign(
    s3,
    { method: 'PUT', path: path('unsized') },
    { ...ana, at: time, payloadHash: 'UNSIGNED-PAYLOAD' },
  )
  const chunked = { ...unsized, headers: { ...unsized.headers, 'transfer-encoding': 'chunked' }, pieces: [body] }
  expect(await sendRaw(s3, chunked)).toMatchObject({ status: 411, code: 'MissingContentLength' })
  const huge = sign(s3, { method: 'PUT', path: path('huge') }, { ...ana, at: time, payloadHash: 'UNSIGNED-PAYLOAD' })
  const headers = { ...huge.headers, 'content-length': String(5 * 1_024 ** 3 + 1), expect: '100-continue' }
  expect(await sendWaiting({ ...huge, headers })).toMatch(/^HTTP\/1\.1 400 .*EntityTooLarge/s)
})

/** Sends a head that waits for 100 Continue, and no body; returns everything received. */
function sendWaiting({ method = 'PUT', path, headers = {} }: Parameters<typeof sendRaw>[1]): Promise<string> {
  const [host = '', port = ''] = s3.host.split(':')
  return new Promise((resolve, reject) => {
    const socket = connect(Number(port), host)
    let text = ''
    socket.on('error', reject)
    socket.on('data', (chunk) => {
      text += chunk.toString()
      if (text.includes('\r\n\r\n') && (text.startsWith('HTTP/1.1 100') || text.includes('</Error>'))) {
        resolve(text)
        socket.destroy()
      }
    })
    const lines = Object.entries({ host: s3.host, ...headers }).map(([name, value]) => `${name}: ${value}\r\n`)
    socket.write(`${method} ${path} HTTP/1.1\r\n${lines.join('')}\r\n`)
  })
}

test.each(['UNSIGNED-PAYLOAD', 'STREAMING-UNSIGNED-PAYLOAD-TRAILER'])(
  'a PUT of %s with neither Content-Length nor Transfer-Encoding is MissingContentLength',
  async (payloadHash) => {
    const headers = { 'x-amz-decoded-content-length': '3' }
    const signing = { ...ana, at: platform.clock.now(), payloadHash }
    const unsized = sign(s3, { method: 'PUT', path: path('unsized'), headers }, signing)
    expect(await sendWaiting(unsized)).toMatch(/^HTTP\/1\.1 411 .*MissingContentLength/s)
  },
)

test('100 Continue comes after authorization and conditions, and never for what is refused', async () => {
  const time = platform.clock.now()
  const waiting = (key: string, headers: Record<string, string> = {}, secret = ana.key.secret) => {
    const options = sign(
      s3,
      { method: 'PUT', path: path(key), headers },
      { key: { ...ana.key, secret }, at: time, payloadHash: 'UNSIGNED-PAYLOAD' },
    )
    return sendWaiting({ ...options, headers: { ...options.headers, 'content-length': '5', expect: '100-continue' } })
  }
  expect(await waiting('continued')).toMatch(/^HTTP\/1\.1 100 Continue/)
  expect(await waiting('continued', {}, 'wrong')).toMatch(/^HTTP\/1\.1 403 .*SignatureDoesNotMatch/s)
  await put('there', 'x')
  expect(await waiting('there', { 'if-none-match': '*' })).toMatch(/^HTTP\/1\.1 412 .*PreconditionFailed/s)
})

test('a client that leaves in the middle of its body leaves nothing behind', async () => {
  const time = platform.clock.now()
  const options = sign(s3, { method: 'PUT', path: path('left') }, { ...ana, at: time, payloadHash: 'UNSIGNED-PAYLOAD' })
  const [host = '', port = ''] = s3.host.split(':')
  await new Promise<void>((resolve, reject) => {
    const socket = connect(Number(port), host)
    socket.on('error', reject)
    socket.on('close', () => resolve())
    const lines = Object.entries({ host: s3.host, ...options.headers, 'content-length': '100000' })
    socket.write(`PUT ${path('left')} HTTP/1.1\r\n${lines.map(([n, v]) => `${n}: ${v}\r\n`).join('')}\r\n`)
    socket.write(body, () => socket.destroy())
  })
  // Its bytes may still be on their way into the store.
  await expect
    .poll(() =>
      expectNothing('left').then(
        () => true,
        () => false,
      ),
    )
    .toBe(true)
})

interface Chunked {
  chunks: Buffer[]
  /** Replacements for correct signatures, by the number of the chunk; the last chunk is the empty one. */
  signatures?: Record<number, string>
  order?: number[]
  decodedLength?: number
  trailer?: { name: string; value: string; signature?: string }
}

/** A body of signed chunks, signed by hand. */
function sendChunks(
  key: string,
  { chunks, signatures = {}, order, decodedLength, trailer }: Chunked,
): Promise<S3Answer> {
  const time = platform.clock.now()
  const signing = { ...ana, at: time, payloadHash: `STREAMING-AWS4-HMAC-SHA256-PAYLOAD${trailer ? '-TRAILER' : ''}` }
  const length = decodedLength ?? chunks.reduce((sum, chunk) => sum + chunk.length, 0)
  const headers: Record<string, string> = {
    'x-amz-decoded-content-length': String(length),
    'content-encoding': 'aws-chunked',
    ...(trailer && { 'x-amz-trailer': trailer.name }),
  }
  const request = sign(s3, { method: 'PUT', path: path(key), headers }, signing)
  const scope = `${amzTimestamp(time).slice(0, 8)}/r/s3/aws4_request`
  const signingKey = signingKeyOf(signing)
  let previous = request.signature
  const step = (algorithm: string, ...digests: string[]) => {
    const text = [algorithm, amzTimestamp(time), scope, previous, ...digests].join('\n')
    previous = createHmac('sha256', signingKey).update(text).digest('hex')
    return previous
  }
  const written = [...chunks, Buffer.alloc(0)].map((chunk, i) => {
    const right = step('AWS4-HMAC-SHA256-PAYLOAD', sha256(''), sha256(chunk))
    const head = `${chunk.length.toString(16)};chunk-signature=${signatures[i] ?? right}\r\n`
    return Buffer.concat([Buffer.from(head), chunk, Buffer.from(chunk.length > 0 ? '\r\n' : '')])
  })
  let end = order && !order.includes(chunks.length) ? '' : '\r\n'
  if (trailer) {
    const line = `${trailer.name}:${trailer.value}\n`
    end = `${trailer.name}:${trailer.value}\r\nx-amz-trailer-signature:${trailer.signature ?? step('AWS4-HMAC-SHA256-TRAILER', sha256(line))}\r\n\r\n`
  }
  const bytes = Buffer.concat([...(order?.map((i) => written[i] as Buffer) ?? written), Buffer.from(end)])
  return sendRaw(s3, { ...request, body: bytes })
}

const chunks = [body.subarray(0, 20_000), body.subarray(20_000, 40_000), body.subarray(40_000)]
const crc = Buffer.alloc(4)
crc.writeUInt32BE(crc32(body))
const trailer = { name: 'x-amz-checksum-crc32', value: crc.toString('base64') }

test('signed chunks are put together, and aws-chunked is no encoding of the object', async () => {
  expect((await sendChunks('chunked', { chunks })).status).toBe(200)
  const row = await read('chunked')
  expect(row.body.equals(body)).toBe(true)
  expect(row.headers).not.toHaveProperty('content-encoding')
  expect(await sendChunks('trailed', { chunks, trailer })).toMatchObject({
    status: 200,
    headers: { 'x-amz-checksum-crc32': trailer.value },
  })
})

test.each([
  ['a tampered signature', { chunks, signatures: { 1: '0'.repeat(64) } }, 403, 'SignatureDoesNotMatch'],
  ['a last chunk that is signed wrongly', { chunks, signatures: { 3: '0'.repeat(64) } }, 403, 'SignatureDoesNotMatch'],
  ['chunks in another order', { chunks, order: [1, 0, 2, 3] }, 403, 'SignatureDoesNotMatch'],
  ['a chunk left out', { chunks, order: [0, 2, 3] }, 403, 'SignatureDoesNotMatch'],
  ['a chunk sent twice', { chunks, order: [0, 0, 1, 2, 3], decodedLength: 70_000 }, 403, 'SignatureDoesNotMatch'],
  ['no last chunk', { chunks, order: [0, 1, 2] }, 400, 'IncompleteBody'],
  ['a decoded length that is too long', { chunks, decodedLength: 50_001 }, 400, 'IncompleteBody'],
  ['a decoded length that is too short', { chunks, decodedLength: 49_999 }, 400, 'IncompleteBody'],
  ['a trailer that is wrong', { chunks, trailer: { ...trailer, value: 'AAAAAA==' } }, 400, 'BadDigest'],
  [
    'a trailer that is signed wrongly',
    { chunks, trailer: { ...trailer, signature: '0'.repeat(64) } },
    403,
    'SignatureDoesNotMatch',
  ],
])('a body of signed chunks with %s stores nothing', async (_, bytes, status, code) => {
  expect(await sendChunks('tampered', bytes)).toMatchObject({ status, code })
  await expectNothing('tampered')
})

const unsignedChunks = (key: string, text: Buffer | string, length: number, headers: Record<string, string> = {}) =>
  put(key, text, { 'x-amz-decoded-content-length': String(length), ...headers }, 'STREAMING-UNSIGNED-PAYLOAD-TRAILER')

test('an unsigned trailer is compared with the body', async () => {
  const announced = { 'x-amz-trailer': 'x-amz-checksum-crc32' }
  const right = '5\r\nhello\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\n\r\n'
  expect((await unsignedChunks('trailer', right, 5, announced)).status).toBe(200)
  expect((await read('trailer')).text).toBe('hello')
  for (const [text, length, code] of [
    [right.replace('NhCmhg', 'AhCmhg'), 5, 'BadDigest'],
    ['5\r\nhello\r\n0\r\n\r\n', 5, 'MalformedTrailerError'],
    [right, 6, 'IncompleteBody'],
    [right, 4, 'IncompleteBody'],
  ] as const)
    expect(await unsignedChunks('trailer-wrong', text, length, announced)).toMatchObject({ status: 400, code })
  await expectNothing('trailer-wrong')
})

test('what the SDK sends of a stream, chunked twice and without a length, is taken', async () => {
  const bytes = randomBytes(3_000_000)
  const Body = Readable.from([bytes.subarray(0, 1_000_000), bytes.subarray(1_000_000)])
  await ana.client.send(new PutObjectCommand({ Bucket, Key: 'stream', Body, ContentLength: bytes.length }))
  const { Body: row, ChecksumCRC32 } = await ana.client.send(
    new GetObjectCommand({ Bucket, Key: 'stream', ChecksumMode: 'ENABLED' }),
  )
  expect(Buffer.from((await row?.transformToByteArray()) ?? []).equals(bytes)).toBe(true)
  expect(ChecksumCRC32).toBeDefined()
})

test.each([
  ['a NUL', '%00', 'InvalidArgument'],
  ['a NUL within', 'a%00b', 'InvalidArgument'],
  ['1,025 bytes', 'k'.repeat(1_025), 'KeyTooLongError'],
  ['a lone surrogate', '%ED%A0%80', 'InvalidURI'],
  ['what is no UTF-8', '%AE%8A-', 'InvalidURI'],
  ['half an escape', '%2', 'InvalidURI'],
])('a key of %s is refused', async (_, key, code) => {
  expect(await put(key, 'x')).toMatchObject({ status: 400, code })
})

async function postForm(
  options: Partial<PresignedPostOptions>,
  change: Record<string, string> = {},
  file = 'from a form',
) {
  const { fields } = await createPresignedPost(ana.client, { Bucket, Key: 'form/${filename}', ...options })
  const form = new FormData()
  for (const [name, value] of Object.entries({ ...fields, ...change })) form.append(name, value)
  form.append('file', new File([file], 'ü "q".txt', { type: 'text/x' }))
  const answer = await fetch(`${s3.url}/${Bucket}`, {
    method: 'POST',
    body: form,
    redirect: 'manual',
  })
  const text = await answer.text()
  return { status: answer.status, headers: answer.headers, text, code: /<Code>(\w+)</.exec(text)?.[1] }
}

test('a form with a signed policy becomes an object', async () => {
  const answer = await postForm({
    Fields: { 'x-amz-meta-a': 'b', success_action_status: '201', acl: 'private' },
    Conditions: [
      ['content-length-range', 1, 100],
      ['starts-with', '$x-amz-meta-a', 'b'],
      { acl: 'private' },
      { success_action_status: '201' },
    ],
  })
  expect(answer.status).toBe(201)
  expect(answer.text).toContain('<Key>form/ü &quot;q&quot;.txt</Key>')
  const row = await ana.client.send(new GetObjectCommand({ Bucket, Key: 'form/ü "q".txt' }))
  expect(await row.Body?.transformToString()).toBe('from a form')
  expect(row).toMatchObject({ ContentType: 'text/x', Metadata: { a: 'b' } })
})

test('a form is answered by 204, or sent on to where its policy says', async () => {
  expect((await postForm({})).status).toBe(204)
  const redirect = 'https://shop.example.com/done?x=1'
  const sent = await postForm({
    Fields: { success_action_redirect: redirect },
    Conditions: [{ success_action_redirect: redirect }],
  })
  expect(sent.status).toBe(303)
  expect(sent.headers.get('location')).toMatch(
    /^https:\/\/shop\.example\.com\/done\?x=1&bucket=.+&key=form%2F.+&etag=%22[0-9a-f]{32}%22$/,
  )
})

test.each([
  ['a key outside the policy', {}, { key: 'elsewhere' }, 'AccessDenied'],
  ['a field that no condition names', {}, { 'x-amz-meta-evil': '1' }, 'AccessDenied'],
  ['another signature', {}, { 'X-Amz-Signature': '0'.repeat(64) }, 'SignatureDoesNotMatch'],
  [
    'another policy',
    {},
    { Policy: Buffer.from('{"expiration":"2099-01-01T00:00:00Z","conditions":[{"a":"b"}]}').toString('base64') },
    'SignatureDoesNotMatch',
  ],
  ['a file that is too large', { Conditions: [['content-length-range', 1, 5]] }, {}, 'EntityTooLarge'],
  ['a file that is too small', { Conditions: [['content-length-range', 100, 200]] }, {}, 'EntityTooSmall'],
  ['a policy that is over', { Expires: -10 }, {}, 'AccessDenied'],
] as [string, Partial<PresignedPostOptions>, Record<string, string>, string][])(
  'a form with %s is refused',
  async (_, options, change, code) => {
    expect((await postForm({ Key: 'formed/', ...options }, change)).code).toBe(code)
  },
)

test('what is no form, and one without a policy, is refused', async () => {
  const type = { 'content-type': 'application/x-www-form-urlencoded' }
  expect(await sendRaw(s3, { method: 'POST', path: `/s3/${Bucket}`, body: 'a=b', headers: type })).toMatchObject({
    status: 400,
    code: 'MalformedPOSTRequest',
  })
  const form = { 'content-type': 'multipart/form-data; boundary=x' }
  const none = '--x\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\nhi\r\n--x--\r\n'
  expect(await sendRaw(s3, { method: 'POST', path: `/s3/${Bucket}`, body: none, headers: form })).toMatchObject({
    status: 403,
    code: 'AccessDenied',
  })
  const endless = `--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n${'y'.repeat(50_000)}`
  expect((await sendRaw(s3, { method: 'POST', path: `/s3/${Bucket}`, body: endless, headers: form })).status).toBe(400)
})
