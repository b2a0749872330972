import { expect, test } from 'vitest'
import { chooseEncoded } from './accepted-encodings.ts'

const both = [{ encoding: 'br' }, { encoding: 'gzip' }]

test.each<[string | undefined, string | undefined]>([
  [undefined, undefined],
  ['', undefined],
  ['gzip, deflate, br, zstd', 'br'],
  ['gzip', 'gzip'],
  ['GZIP;Q=1', 'gzip'],
  ['x-gzip', 'gzip'],
  ['br;q=0.5, gzip;q=0.8', 'gzip'],
  ['br;q=0.8, gzip;q=0.8', 'br'],
  ['br;q=0, gzip', 'gzip'],
  ['*', 'br'],
  ['*;q=0.5, br;q=0', 'gzip'],
  ['*;q=0', undefined],
  ['identity', undefined],
  ['identity, br;q=0.5', undefined],
  ['identity;q=0.5, br', 'br'],
  ['identity;q=0, deflate', undefined],
  ['deflate, zstd', undefined],
  ['br;q=2', undefined],
  ['br;q=x', undefined],
  ['br;q=', undefined],
  ['br;q=nonsense, gzip', 'gzip'],
  ['br;q=-1, gzip;q=0x1', undefined],
  ['gzip;q=.5', 'gzip'],
  ['gzip;q=1.0000', 'gzip'],
  ['identity;q=0, *', 'br'],
  [';,;;q=1,=,', undefined],
  [' br ; q=0.001 ', 'br'],
])('Accept-Encoding: %s is answered in %s', (header, expected) => {
  expect(chooseEncoded(header, both)?.encoding).toBe(expected)
})

test('a header of 8 kB is read to its end', () => {
  expect(chooseEncoded(`${'x,'.repeat(4_000)}gzip`, both)?.encoding).toBe('gzip')
})

test('only what a file has is chosen', () => {
  expect(chooseEncoded('br', [{ encoding: 'gzip' }])).toBeUndefined()
  expect(chooseEncoded('br, gzip;q=0.1', [{ encoding: 'gzip' }])?.encoding).toBe('gzip')
  expect(chooseEncoded('*', [])).toBeUndefined()
})
