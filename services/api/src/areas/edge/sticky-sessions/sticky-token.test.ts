import { randomBytes } from 'node:crypto'
import { newId } from '@platform/runtime/new-id'
import { createSigner, masterKeys } from '@platform/runtime/seal'
import { describe, expect, test } from 'vitest'
import { createStickyTokens, type StickyMethod, stickyMethods } from './sticky-token.ts'

// Key ids may contain the token's separator.
const key = (id: string) => `${id}:${randomBytes(32).toString('base64')}`
const [old, current] = [key('2025.1'), key('k.2026-1')]
const tokensOf = (...keys: string[]) => createStickyTokens(createSigner(masterKeys.parse(keys.join(',')), 'sticky url'))
const tokens = tokensOf(current)

const now = new Date('2026-11-21T09:30:00.000Z')
const later = (ms: number) => new Date(now.getTime() + ms)
const deploymentId = newId()
const sticky = { deploymentId, key: 'cart-4711', path: '/carts/4711', expiresAt: later(60_000) }
const request = { deploymentId, path: '/carts/4711', method: 'GET', now }
const token = tokens.mint(sticky)
const invalid = { isValid: false }

test('a token names its key by 16 bytes and its expiry in seconds, to base 36', () => {
  const [kid, expires = '', keyHash = '', mac] = /^k\.2026-1\.(.+)$/.exec(token)
    ? ['', ...token.slice(9).split('.')]
    : []
  expect([kid, mac]).toEqual(['', expect.stringMatching(/^[\w-]{43}$/)])
  expect(Number.parseInt(expires, 36) * 1_000).toBe(sticky.expiresAt.getTime())
  const read = tokens.read(token, request)
  expect(read).toEqual({
    isValid: true,
    pin: { keyHash: Buffer.from(keyHash, 'base64url'), expiresAt: sticky.expiresAt },
  })
  expect(read.isValid && read.pin.keyHash).toHaveLength(16)
  expect(token).not.toContain('cart')
})

test('one key is one slot, whatever path and method; another key or deployment is another', () => {
  const hashOf = (more: Partial<typeof sticky> & { method?: StickyMethod }) =>
    tokens
      .mint({ ...sticky, ...more })
      .split('.')
      .at(-2)
  expect(hashOf({ path: '/', method: 'POST', expiresAt: later(1) })).toBe(hashOf({}))
  expect(new Set([hashOf({}), hashOf({ key: 'cart-4712' }), hashOf({ deploymentId: newId() })]).size).toBe(3)
})

test('it is good until its second is over, and a part of a second counts as a whole one', () => {
  const odd = tokens.mint({ ...sticky, expiresAt: later(59_001) })
  expect(tokens.read(odd, request)).toMatchObject({ pin: { expiresAt: later(60_000) } })
  expect(tokens.read(odd, { ...request, now: later(59_999) }).isValid).toBe(true)
  expect(tokens.read(odd, { ...request, now: later(60_000) })).toEqual(invalid)
})

test.each([
  ['another path', { path: '/carts/4712' }],
  ['a path below', { path: '/carts/4711/items' }],
  ['a folder', { path: '/carts/4711/' }],
  ['another case', { path: '/Carts/4711' }],
  ['an encoded slash', { path: '/carts%2F4711' }],
  ['another deployment', { deploymentId: newId() }],
  ['another time', { now: later(60_000) }],
])('%s is refused', (_, more) => {
  expect(tokens.read(token, { ...request, ...more })).toEqual(invalid)
})

test.each([
  ['/a^b', '/a%5Eb'],
  ['/%C3%BC', '/%c3%bc'],
  ['/%7Eana', '/~ana'],
  ['/a%20b', '/a b'],
])('%j is the path %j, which some clients make of it', (path, other) => {
  const minted = tokens.mint({ ...sticky, path })
  expect(tokens.read(minted, { ...request, path: other }).isValid).toBe(true)
})

describe('methods', () => {
  const passing: Record<StickyMethod, readonly string[]> = {
    GET: ['GET', 'HEAD', 'OPTIONS'],
    POST: ['POST', 'OPTIONS'],
    PUT: ['PUT', 'OPTIONS'],
    DELETE: ['DELETE', 'OPTIONS'],
    HEAD: ['HEAD', 'OPTIONS'],
    OPTIONS: ['OPTIONS'],
    PATCH: ['PATCH', 'OPTIONS'],
  }
  const urls = [...stickyMethods, 'PROPFIND', 'get', '']

  test.each(stickyMethods)('a token for %s lets that pass, and tells of others what it allows (D87)', (method) => {
    const minted = tokens.mint({ ...sticky, method })
    for (const other of urls)
      expect([other, tokens.read(minted, { ...request, method: other })]).toEqual([
        other,
        passing[method].includes(other)
          ? { isValid: true, pin: expect.anything() as unknown }
          : { isValid: false, allowed: passing[method].join(', ') },
      ])
    // Other errors take precedence over a wrong method.
    for (const more of [{ path: '/' }, { deploymentId: newId() }, { now: sticky.expiresAt }])
      for (const other of urls) expect(tokens.read(minted, { ...request, ...more, method: other })).toEqual(invalid)
  })

  test('a token without one lets all pass', () => {
    for (const method of urls)
      expect([method, tokens.read(token, { ...request, method }).isValid]).toEqual([method, true])
  })
})

test('a character changed, left out or repeated anywhere makes no token', () => {
  const minted = tokens.mint({ ...sticky, method: 'POST' })
  const others = Array.from('ABab01-_.~ \0é')
  const tampered = Array.from(minted).flatMap((character, position) => [
    minted.slice(0, position) + minted.slice(position + 1),
    minted.slice(0, position) + character + minted.slice(position),
    ...[...others, character.toUpperCase(), character.toLowerCase()].map(
      (other) => minted.slice(0, position) + other + minted.slice(position + 1),
    ),
  ])
  const wrong = new Set(tampered)
  wrong.delete(minted)
  expect(wrong.size).toBeGreaterThan(1_000)
  for (const text of wrong)
    for (const method of ['POST', 'GET'])
      expect([text, tokens.read(text, { ...request, method })]).toEqual([text, invalid])
})

const parts = (): [kid: string, expires: string, keyHash: string, mac: string] => {
  const [mac = '', keyHash = '', expires = '', ...kid] = token.split('.').toReversed()
  return [kid.toReversed().join('.'), expires, keyHash, mac]
}
/** A different spelling of the same bits: base64url ignores the last four bits of 22 characters. */
const respelled = (keyHash: string) => {
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
  const other = keyHash.slice(0, -1) + (alphabet[alphabet.indexOf(keyHash.at(-1) ?? '') + 1] ?? '')
  expect(Buffer.from(other, 'base64url')).toEqual(Buffer.from(keyHash, 'base64url'))
  return other
}
const [kid, expires, keyHash, mac] = parts()
test.each([
  ['nothing', ''],
  ['dots', '...'],
  ['many dots', '.'.repeat(256)],
  ['an expiry in capitals', [kid, expires.toUpperCase(), keyHash, mac].join('.')],
  ['an expiry with a zero in front', [kid, `0${expires}`, keyHash, mac].join('.')],
  ['an expiry with a sign', [kid, `+${expires}`, keyHash, mac].join('.')],
  ['an expiry that no Date holds', [kid, 'z'.repeat(8), keyHash, mac].join('.')],
  ['an expiry that no number holds', [kid, 'z'.repeat(60), keyHash, mac].join('.')],
  ['no expiry', [kid, '', keyHash, mac].join('.')],
  ['a hash in another spelling', [kid, expires, respelled(keyHash), mac].join('.')],
  ['a hash with padding', [kid, expires, `${keyHash}==`, mac].join('.')],
  ['a hash of 15 bytes', [kid, expires, keyHash.slice(2), mac].join('.')],
  ['a hash of 17 bytes', [kid, expires, `${keyHash}A`, mac].join('.')],
  ['a signature cut short', [kid, expires, keyHash, mac.slice(0, -1)].join('.')],
  ['no signature', [kid, expires, keyHash, ''].join('.')],
  ['a part too few', [kid, expires, keyHash].join('.')],
  ['no key id', `.${[expires, keyHash, mac].join('.')}`],
  ['an unknown key id', ['2026', expires, keyHash, mac].join('.')],
  ['a key id of a prototype', ['__proto__', expires, keyHash, mac].join('.')],
  ['a line feed behind it', `${token}\n`],
  ['a token behind another', `${token}.${token}`],
  ['300 characters', `${'k'.repeat(300)}.${token}`],
  ['a million characters', 'a.'.repeat(500_000)],
  ['a lone surrogate', `\ud800.${token}`],
])('%s is no token', (_, text) => {
  for (const method of ['GET', 'POST']) expect(tokens.read(text, { ...request, method })).toEqual(invalid)
})

test('a token outlives a new master key, and ends with its own', () => {
  const minted = tokensOf(old).mint(sticky)
  expect(tokensOf(old).read(minted, request).isValid).toBe(true)
  const rotated = tokensOf(current, old)
  expect(rotated.read(minted, request).isValid).toBe(true)
  expect(rotated.mint(sticky)).toMatch(/^k\.2026-1\./)
  expect(tokens.read(minted, request)).toEqual(invalid)
})

test('what was signed for another purpose is no token', () => {
  const other = createStickyTokens(createSigner(masterKeys.parse(current), 'object access'))
  expect(tokens.read(other.mint(sticky), request)).toEqual(invalid)
})
