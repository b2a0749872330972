import { createHash, createHmac, createSecretKey } from 'node:crypto'
import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import type { StreamSeed } from '../signature/verify.ts'
import { decodeChunks, type ChunksOptions } from './decode-chunks.ts'

const secret = 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY'
const step = (key: Buffer | string, text: string) => createHmac('sha256', key).update(text).digest()
const signingKey = createSecretKey(
  step(step(step(step(`AWS4${secret}`, '20130524'), 'us-east-1'), 's3'), 'aws4_request'),
)
const seedOf = (signature: string): StreamSeed => ({
  signingKey,
  signature,
  timestamp: '20130524T000000Z',
  scope: '20130524/us-east-1/s3/aws4_request',
})

// The 66,560 bytes of "a" of the documentation, in chunks of 65,536 and 1,024 bytes.
const documented = (signatures: string[], end: string) =>
  Buffer.from(
    `10000;chunk-signature=${signatures[0]}\r\n${'a'.repeat(65_536)}\r\n400;chunk-signature=${signatures[1]}\r\n${'a'.repeat(1_024)}\r\n0;chunk-signature=${signatures[2]}\r\n${end}\r\n`,
  )
const plain = [
  'ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648',
  '0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497',
  'b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9',
]
const plainOptions: ChunksOptions = {
  seed: seedOf('4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9'),
  hasTrailers: false,
  decodedLength: 66_560,
}
const trailed = [
  'b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2',
  '1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7',
  '2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992',
]
const trailedOptions: ChunksOptions = {
  seed: seedOf('106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e'),
  hasTrailers: true,
  decodedLength: 66_560,
}
const trailers =
  'x-amz-checksum-crc32c:sOO8/Q==\r\nx-amz-trailer-signature:d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435\r\n'

async function* inPieces(bytes: Buffer, size: number): AsyncGenerator<Buffer> {
  for (let offset = 0; offset < bytes.length; offset += size) yield bytes.subarray(offset, offset + size)
}

async function decode(bytes: Buffer, options: ChunksOptions, size = 16_384) {
  const { body, trailers } = decodeChunks(inPieces(bytes, size), options)
  const chunks: Buffer[] = []
  for await (const chunk of body) chunks.push(chunk)
  return { bytes: Buffer.concat(chunks), trailers: Object.fromEntries(trailers) }
}

test.each([1, 7, 1_000, 16_384, 1_000_000])(
  'the documented signed chunks decode in pieces of %s bytes',
  async (size) => {
    const { bytes } = await decode(documented(plain, ''), plainOptions, size)
    expect(createHash('md5').update(bytes).digest('hex')).toBe(
      createHash('md5').update('a'.repeat(66_560)).digest('hex'),
    )
  },
)

test('the documented signed trailer verifies, and a changed one does not', async () => {
  const { trailers: decodedTrailers } = await decode(documented(trailed, trailers), trailedOptions, 33)
  expect(decodedTrailers['x-amz-checksum-crc32c']).toBe('sOO8/Q==')
  const wrong = documented(trailed, trailers.replace('sOO8/Q', 'sOO8/A'))
  await expect(decode(wrong, trailedOptions)).rejects.toMatchObject({ code: 'SignatureDoesNotMatch' })
  const unsigned = documented(trailed, 'x-amz-checksum-crc32c:sOO8/Q==\r\n')
  await expect(decode(unsigned, trailedOptions)).rejects.toMatchObject({ code: 'SignatureDoesNotMatch' })
})

const [first = '', second = '', last = ''] = plain
test.each([
  ['a chunk whose bytes were changed', documented(plain, '').fill('b', 200, 201)],
  ['a chunk whose signature was changed', documented([first.replace('a', 'b'), second, last], '')],
  ['chunks in another order', documented([second, first, last], '')],
  ['a last chunk that is signed wrongly', documented([first, second, first], '')],
  ['a chunk without a signature', Buffer.from(`10\r\n${'a'.repeat(16)}\r\n0\r\n\r\n`)],
])('%s is SignatureDoesNotMatch', async (_, bytes) => {
  await expect(decode(bytes, plainOptions)).rejects.toMatchObject({ code: 'SignatureDoesNotMatch' })
})

test('a chunk that is sent twice is refused', async () => {
  const chunk = `10000;chunk-signature=${first}\r\n${'a'.repeat(65_536)}\r\n`
  await expect(decode(Buffer.from(chunk + chunk), { ...plainOptions, decodedLength: 131_072 })).rejects.toMatchObject({
    code: 'SignatureDoesNotMatch',
  })
})

const unsigned = (decodedLength: number): ChunksOptions => ({ hasTrailers: true, decodedLength })

test.each([
  ['more than declared', '5\r\nhello\r\n0\r\n\r\n', 4, 'IncompleteBody'],
  ['less than declared', '5\r\nhello\r\n0\r\n\r\n', 6, 'IncompleteBody'],
  ['no last chunk', '5\r\nhello\r\n', 5, 'IncompleteBody'],
  ['an end within a chunk', '5\r\nhel', 5, 'IncompleteBody'],
  ['no end of the trailers', '5\r\nhello\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\n', 5, 'IncompleteBody'],
  ['bytes behind the end', '5\r\nhello\r\n0\r\n\r\nmore', 5, 'IncompleteBody'],
  ['a chunk longer than it says', '4\r\nhello\r\n0\r\n\r\n', 5, 'InvalidRequest'],
  ['a length that is none', 'x\r\nhello\r\n0\r\n\r\n', 5, 'InvalidRequest'],
  ['a negative length', '-5\r\nhello\r\n0\r\n\r\n', 5, 'InvalidRequest'],
  ['a length of 13 digits', '0000000000005\r\nhello\r\n0\r\n\r\n', 5, 'InvalidRequest'],
  ['an endless line', '5;'.padEnd(5_000, 'x'), 5, 'InvalidRequest'],
  ['a trailer without a colon', '0\r\nnonsense\r\n\r\n', 0, 'MalformedTrailerError'],
  ['a trailer twice', '0\r\na:1\r\na:2\r\n\r\n', 0, 'MalformedTrailerError'],
  [
    'too many trailers',
    `0\r\n${Array.from({ length: 17 }, (_, i) => `t${i}:1\r\n`).join('')}\r\n`,
    0,
    'MalformedTrailerError',
  ],
])('a body with %s is refused', async (_, text, length, code) => {
  await expect(decode(Buffer.from(text), unsigned(length), 3)).rejects.toMatchObject({ code })
})

test('trailers are no need, and an empty body is fine', async () => {
  expect(await decode(Buffer.from('5\r\nhello\r\n0\r\n\r\n'), unsigned(5))).toEqual({
    bytes: Buffer.from('hello'),
    trailers: {},
  })
  expect((await decode(Buffer.from('0\r\n\r\n'), unsigned(0))).bytes).toHaveLength(0)
})

/** Runs work, and counts the bytes that it copies, searches and reads as text, and the pieces that it makes. */
async function countBufferWork(run: () => Promise<unknown>): Promise<number> {
  let count = 0
  const { concat } = Buffer
  const { indexOf, subarray, toString } = Buffer.prototype
  Buffer.concat = (list, length) => {
    for (const each of list) count += each.length
    return concat(list, length)
  }
  Buffer.prototype.indexOf = function (value: string | number | Uint8Array, from?: number, encoding?: BufferEncoding) {
    const index = indexOf.call(this, value, from, encoding)
    count += (index < 0 ? this.length : index) - (from ?? 0)
    return index
  }
  Buffer.prototype.subarray = function (start?: number, end?: number) {
    count += 1
    return subarray.call(this, start, end)
  }
  Buffer.prototype.toString = function (this: Buffer, encoding?: BufferEncoding, start = 0, end = this.length) {
    count += end - start
    return toString.call(this, encoding, start, end)
  }
  try {
    await run()
  } finally {
    Buffer.concat = concat
    Object.assign(Buffer.prototype, { indexOf, subarray, toString })
  }
  return count
}

test('the work that chunks of 100 bytes take grows with their number alone', async () => {
  const one = Buffer.from(`64\r\n${'a'.repeat(100)}\r\n`)
  const workOf = async (count: number) => {
    const bytes = Buffer.concat([...Array<Buffer>(count).fill(one), Buffer.from('0\r\n\r\n')])
    return countBufferWork(async () => {
      expect((await decode(bytes, unsigned(count * 100), 65_536)).bytes).toHaveLength(count * 100)
    })
  }
  const [small, large] = [await workOf(5_000), await workOf(50_000)]
  expect(small).toBeGreaterThan(5_000 * 100)
  expect(large / small).toBeCloseTo(10, 1)
})

/** Encodes bytes as signed chunks of these lengths, with a signed trailer. */
function encode(chunks: readonly Uint8Array[], seed: StreamSeed): Buffer {
  const digest = (bytes: Uint8Array | string) => createHash('sha256').update(bytes).digest('hex')
  let previous = seed.signature
  const sign = (algorithm: string, ...digests: string[]) => {
    const text = [algorithm, seed.timestamp, seed.scope, previous, ...digests].join('\n')
    return (previous = createHmac('sha256', seed.signingKey).update(text).digest('hex'))
  }
  const written = [...chunks, new Uint8Array()].flatMap((chunk) => [
    `${chunk.length.toString(16)};chunk-signature=${sign('AWS4-HMAC-SHA256-PAYLOAD', digest(''), digest(chunk))}\r\n`,
    Buffer.from(chunk),
    chunk.length > 0 ? '\r\n' : '',
  ])
  const end = `x-amz-checksum-crc32:AAAAAA==\r\nx-amz-trailer-signature:${sign('AWS4-HMAC-SHA256-TRAILER', digest('x-amz-checksum-crc32:AAAAAA==\n'))}\r\n\r\n`
  return Buffer.concat([...written, end].map((piece) => Buffer.from(piece)))
}

const anyChunks = fc.array(fc.uint8Array({ minLength: 1, maxLength: 300 }), { maxLength: 8 })
const seed = seedOf('4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9')

test('any bytes in any chunks, arriving in any pieces, decode to themselves', async () => {
  await fc.assert(
    fc.asyncProperty(anyChunks, fc.integer({ min: 1, max: 700 }), async (chunks, size) => {
      const bytes = Buffer.concat(chunks)
      const options = { seed, hasTrailers: true, decodedLength: bytes.length }
      expect((await decode(encode(chunks, seed), options, size)).bytes).toEqual(bytes)
    }),
  )
})

test('whatever one byte of a signed body is changed to, it is refused or means the same', async () => {
  await fc.assert(
    fc.asyncProperty(anyChunks, fc.nat(), fc.integer({ min: 1, max: 255 }), async (chunks, position, change) => {
      const bytes = Buffer.concat(chunks)
      const wire = encode(chunks, seed)
      wire[position % wire.length] = (wire[position % wire.length] as number) ^ change
      const options = { seed, hasTrailers: true, decodedLength: bytes.length }
      // The other case of a digit in a length, or trailing white space: neither is signed.
      const outcome = await decode(wire, options).then(
        (decoded) => decoded.bytes.equals(bytes) && decoded.trailers['x-amz-checksum-crc32'] === 'AAAAAA==',
        (error: { status: number }) => error.status === 400 || error.status === 403,
      )
      expect(outcome).toBe(true)
    }),
    { numRuns: 500 },
  )
})
