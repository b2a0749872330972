import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { type CompressedCopies, copyIn, sizeOfCopies } from './compressed-copies.ts'
import { openCompressors, type Reservation } from './compressors.ts'

const MB = 1_048_576
const text = Buffer.from('A line of text that comes again and again.\n'.repeat(1_000))

test.each(['br', 'gzip'] as const)(
  '1,000 streams in %s find no more than 128 MiB, and leave it to those that follow',
  (encoding) => {
    const compressors = openCompressors()
    const reservations: Reservation[] = []
    for (let n = 0; n < 1_000; n++) {
      const reservation = compressors.reserve(encoding)
      if (reservation) reservations.push(reservation)
    }
    expect(reservations.length).toBeGreaterThan(150)
    expect(reservations.length).toBeLessThanOrEqual(256)
    expect(compressors.reserve('br')).toBeUndefined()
    for (const reservation of reservations) {
      reservation.release()
      reservation.release()
    }
    expect(Array.from({ length: 1_000 }, () => compressors.reserve(encoding)).filter(Boolean)).toHaveLength(
      reservations.length,
    )
  },
)

test('an open compressor gives its memory back when it is destroyed', async () => {
  const compressors = openCompressors(MB)
  const reservation = compressors.reserve('br')!
  const compressor = reservation.open()
  expect(compressors.reserve('br')).toBeUndefined()
  await new Promise((resolve) => compressor.once('close', resolve).destroy())
  expect(compressors.reserve('br')).toBeDefined()
})

test('a copy is made once for all that ask at the same time, and again where there was no memory', async () => {
  let reads = 0
  const read = () => {
    reads += 1
    return text
  }
  const body = { length: text.length, read }
  const copies: CompressedCopies = {}
  let made = 0
  const ask = async (compressors = openCompressors()) => copyIn(copies, 'br', compressors, body, () => void (made += 1))
  expect(await ask(openCompressors(MB))).toBeUndefined()
  expect(reads).toBe(0)
  const all = await Promise.all(Array.from({ length: 100 }, () => ask()))
  expect(reads).toBe(1)
  expect(made).toBe(1)
  for (const copy of all) expect(brotliDecompressSync(copy!)).toEqual(text)
  expect(await ask()).toBe(all[0])
  expect(sizeOfCopies(copies)).toBe(all[0]!.length)
})

test('a copy whose body cannot be read fails for those who wait, and the next visitor tries again', async () => {
  const copies: CompressedCopies = {}
  const failing = { length: text.length, read: () => Promise.reject(new Error('away')) }
  await expect(copyIn(copies, 'gzip', openCompressors(), failing, () => {})).rejects.toThrow('away')
  const copy = await copyIn(copies, 'gzip', openCompressors(), { length: text.length, read: () => text }, () => {})
  expect(gunzipSync(copy!)).toEqual(text)
})

test('a copy of more than 2 MiB is not kept, and not made again', async () => {
  const random = Buffer.alloc(2 * MB + 1)
  for (let n = 0, seed = 1; n < random.length; n++) random[n] = (seed = (seed * 48_271) % 2_147_483_647) & 255
  const copies: CompressedCopies = {}
  let reads = 0
  const read = () => {
    reads += 1
    return random
  }
  const ask = () => copyIn(copies, 'gzip', openCompressors(), { length: random.length, read }, () => {})
  expect(await ask()).toBeUndefined()
  expect(await ask()).toBeUndefined()
  expect(reads).toBe(1)
  expect(sizeOfCopies(copies)).toBe(0)
})
