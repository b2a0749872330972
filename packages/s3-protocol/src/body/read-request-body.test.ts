import { createHash } from 'node:crypto'
import { expect, test } from 'vitest'
import { checksumAlgorithms, checksumHeader, startSum } from './checksum.ts'
import { combineCrcs } from './combine-crcs.ts'
import { readBodyClaim, readRequestBody } from './read-request-body.ts'

const hello = Buffer.from('123456789')
/** The check values of the CRC catalogue, and of FIPS 180, for "123456789". */
const known = {
  CRC32: Buffer.from('cbf43926', 'hex').toString('base64'),
  CRC32C: Buffer.from('e3069283', 'hex').toString('base64'),
  CRC64NVME: Buffer.from('ae8b14860a799888', 'hex').toString('base64'),
  SHA1: createHash('sha1').update(hello).digest('base64'),
  SHA256: createHash('sha256').update(hello).digest('base64'),
}

test.each(checksumAlgorithms)('%s is what its catalogue says', async (algorithm) => {
  const sum = await startSum(algorithm)
  sum.update(hello.subarray(0, 4))
  sum.update(hello.subarray(4))
  expect(sum.digest().toString('base64')).toBe(known[algorithm])
})

test.each(['CRC32', 'CRC32C', 'CRC64NVME'] as const)('the %s of parts follows from theirs', async (algorithm) => {
  const digestOf = async (bytes: Buffer) => {
    const sum = await startSum(algorithm)
    sum.update(bytes)
    return sum.digest()
  }
  const parts = [1_000, 1_000, 1_000, 7, 0, 300].map((length, i) => Buffer.alloc(length, i * 37 + 1))
  const combined = combineCrcs(
    algorithm,
    await Promise.all(parts.map(async (part) => ({ digest: await digestOf(part), length: part.length }))),
  )
  expect(combined).toEqual(await digestOf(Buffer.concat(parts)))
})

async function* stream(bytes: Buffer): AsyncGenerator<Buffer> {
  yield bytes
}

const sha256 = (bytes: Buffer) => createHash('sha256').update(bytes).digest()

async function take(headers: Record<string, string>, payloadHash = 'UNSIGNED-PAYLOAD', sent = hello) {
  const claim = readBodyClaim(
    new Map(Object.entries({ 'content-length': String(hello.length), ...headers })),
    payloadHash,
  )
  const body = await readRequestBody(stream(sent), claim, undefined)
  const chunks: Buffer[] = []
  for await (const chunk of body.bytes) chunks.push(chunk)
  const bytes = Buffer.concat(chunks)
  return body.verify({ md5: createHash('md5').update(bytes).digest(), sha256: sha256(bytes), length: bytes.length })
}

test.each(checksumAlgorithms)('a %s in a header or a trailer is compared with the body', async (algorithm) => {
  const header = checksumHeader(algorithm)
  const right = known[algorithm]
  const wrong = Buffer.alloc(Buffer.from(right, 'base64').length, 1).toString('base64')
  expect(await take({ [header]: right })).toEqual({ algorithm, value: right })
  await expect(take({ [header]: wrong })).rejects.toMatchObject({ code: 'BadDigest' })

  const trailing = (value: string) =>
    take(
      { 'x-amz-trailer': header, 'x-amz-decoded-content-length': '9' },
      'STREAMING-UNSIGNED-PAYLOAD-TRAILER',
      Buffer.from(`9\r\n${hello.toString()}\r\n0\r\n${header}:${value}\r\n\r\n`),
    )
  expect(await trailing(right)).toEqual({ algorithm, value: right })
  await expect(trailing(wrong)).rejects.toMatchObject({ code: 'BadDigest' })
  await expect(trailing('nonsense')).rejects.toMatchObject({ code: 'InvalidRequest' })
})

test('a trailer that was announced must come, and one that was not must not', async () => {
  const chunked = (trailer: string | undefined, end: string) =>
    take(
      { ...(trailer && { 'x-amz-trailer': trailer }), 'x-amz-decoded-content-length': '9' },
      'STREAMING-UNSIGNED-PAYLOAD-TRAILER',
      Buffer.from(`9\r\n${hello.toString()}\r\n0\r\n${end}\r\n`),
    )
  await expect(chunked('x-amz-checksum-crc32', '')).rejects.toMatchObject({ code: 'MalformedTrailerError' })
  await expect(chunked(undefined, 'x-amz-checksum-crc32:AAAAAA==\r\n')).rejects.toMatchObject({
    code: 'MalformedTrailerError',
  })
  expect(await chunked(undefined, '')).toBeUndefined()
})

test('a body unlike its signed hash, its Content-MD5 or its length is refused', async () => {
  expect(await take({}, sha256(hello).toString('hex'))).toBeUndefined()
  await expect(take({}, sha256(Buffer.from('other')).toString('hex'))).rejects.toMatchObject({
    code: 'XAmzContentSHA256Mismatch',
  })
  const md5 = createHash('md5').update('other').digest('base64')
  await expect(take({ 'content-md5': md5 })).rejects.toMatchObject({ code: 'BadDigest' })
  await expect(take({ 'content-length': '10' })).rejects.toMatchObject({ code: 'IncompleteBody' })
})

test.each([
  ['no length', { 'content-length': undefined }, 'UNSIGNED-PAYLOAD', 'MissingContentLength'],
  ['no decoded length', {}, 'STREAMING-UNSIGNED-PAYLOAD-TRAILER', 'MissingContentLength'],
  [
    'a decoded length that is none',
    { 'x-amz-decoded-content-length': '-1' },
    'STREAMING-UNSIGNED-PAYLOAD-TRAILER',
    'InvalidArgument',
  ],
  ['a Content-MD5 that is none', { 'content-md5': 'x' }, 'UNSIGNED-PAYLOAD', 'InvalidDigest'],
  ['a checksum that is none', { 'x-amz-checksum-crc32': 'x' }, 'UNSIGNED-PAYLOAD', 'InvalidRequest'],
  [
    'two checksums',
    { 'x-amz-checksum-crc32': 'AAAAAA==', 'x-amz-checksum-crc32c': 'AAAAAA==' },
    'UNSIGNED-PAYLOAD',
    'InvalidRequest',
  ],
  ['an algorithm nobody knows', { 'x-amz-sdk-checksum-algorithm': 'MD6' }, 'UNSIGNED-PAYLOAD', 'InvalidRequest'],
  ['a hash that is none', {}, 'abc', 'InvalidArgument'],
  [
    'chunks of SigV4a',
    { 'x-amz-decoded-content-length': '9' },
    'STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD',
    'NotImplemented',
  ],
])('a body with %s is refused before it is read', (_, headers, payloadHash, code) => {
  const all = Object.entries({ 'content-length': '9', ...headers }).filter(([, value]) => value !== undefined)
  expect(() => readBodyClaim(new Map(all as [string, string][]), payloadHash)).toThrow(
    expect.objectContaining({ code }),
  )
})

test('signed chunks in a request that is not signed are refused', async () => {
  await expect(
    take({ 'x-amz-decoded-content-length': '9' }, 'STREAMING-AWS4-HMAC-SHA256-PAYLOAD'),
  ).rejects.toMatchObject({ code: 'InvalidRequest' })
})
