import { randomBytes } from 'node:crypto'
import { expect, test } from 'vitest'
import { createSealer, masterKeys } from './seal.ts'

const key = () => randomBytes(32).toString('base64')
const [old, current] = [`2025:${key()}`, `2026:${key()}`]

test('what was sealed opens again, for its own row only', () => {
  const sealer = createSealer(masterKeys.parse(current))
  const sealed = sealer.seal('s3cret', 'row-1')
  expect(sealer.open(sealed, 'row-1').toString()).toBe('s3cret')
  expect(() => sealer.open(sealed, 'row-2')).toThrow('does not open')
  expect(sealed.ciphertext.includes('s3cret')).toBe(false)
})

test('a changed byte does not open', () => {
  const sealer = createSealer(masterKeys.parse(current))
  const sealed = sealer.seal('s3cret', 'row-1')
  for (let offset = 0; offset < sealed.ciphertext.length; offset++) {
    const changed = Buffer.from(sealed.ciphertext)
    changed[offset] = (changed[offset] ?? 0) ^ 1
    expect(() => sealer.open({ ...sealed, ciphertext: changed }, 'row-1')).toThrow('does not open')
  }
})

test('a new master key seals while the old one still opens', () => {
  const sealed = createSealer(masterKeys.parse(old)).seal('s3cret', 'row-1')
  const sealer = createSealer(masterKeys.parse(`${current},${old}`))
  expect(sealer.open(sealed, 'row-1').toString()).toBe('s3cret')
  expect(sealer.seal('x', 'row-1').kekId).toBe('2026')
  expect(() => createSealer(masterKeys.parse(current)).open(sealed, 'row-1')).toThrow('2025')
})

test('another key under a known id is told as what it is', () => {
  const sealed = createSealer(masterKeys.parse(`k1:${key()}`)).seal('s3cret', 'row-1')
  const other = createSealer(masterKeys.parse(`k1:${key()}`))
  expect(() => other.open(sealed, 'row-1')).toThrow(/master key k1 does not open: MASTER_KEYS holds another key/)
})

test.each(['', 'k1', 'k1:short', `k1:${key()},`, `k 1:${key()}`, `k1:${key()},k1:${key()}`])(
  '%j is no set of master keys',
  (text) => {
    expect(masterKeys.safeParse(text).success).toBe(false)
  },
)
