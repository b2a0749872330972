import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { fileNameOf, normalizePath, normalizeWrittenPath } from './normalize-path.ts'

test.each([
  ['', '/'],
  ['/', '/'],
  ['//', '/'],
  ['/a', '/a'],
  ['a', '/a'],
  ['*', '/*'],
  ['/a/', '/a/'],
  ['/a//', '/a/'],
  ['//a', '/a'],
  ['/a/./b', '/a/b'],
  ['/a/.', '/a/'],
  ['/a/..', '/'],
  ['/a/b/..', '/a/'],
  ['/../a', '/a'],
  ['/a/%2e%2E/b', '/b'],
  ['/a/.%2e/b', '/b'],
  ['/a/...', '/a/...'],
  ['/a/.b', '/a/.b'],
  ['/a\\b', '/a/b'],
  ['/a\\..\\b', '/b'],
  ['/%61%62', '/ab'],
  ['/%7Ea', '/~a'],
  ['/%40a', '/@a'],
  ['/%5bslug%5d', '/[slug]'],
  ['/a%2fb', '/a%2Fb'],
  ['/a%5cb', '/a%5Cb'],
  ['/a%25b', '/a%25b'],
  ['/a%2561', '/a%2561'],
  ['/%', '/%25'],
  ['/%4', '/%254'],
  ['/%zz', '/%25zz'],
  ['/%c3%a9', '/%C3%A9'],
  ['/\u00c3\u00a9', '/%C3%A9'],
  ['/\u20ac', '/%E2%82%AC'],
  ['/\u{1F600}x', '/%F0%9F%98%80x'],
  ['/\ud800', '/%EF%BF%BD'],
  ['/a b"<>`{}^', '/a%20b%22%3C%3E%60%7B%7D%5E'],
  ['/%3f%23', '/%3F%23'],
  ['/a?b#c', '/a%3Fb%23c'],
  ['/%00\n', '/%00%0A'],
  ['/a+b&c=d;e,f!(g)*:$', '/a+b&c=d;e,f!(g)*:$'],
  ['/a%2Bb%26c', '/a+b&c'],
])('%j is spelled %s', (path, expected) => {
  expect(normalizePath(path)).toBe(expected)
})

test('a path that an author wrote holds letters, not bytes', () => {
  expect(normalizeWrittenPath('/caf\u00e9')).toBe('/caf%C3%A9')
})

describe('whatever comes', () => {
  const paths = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc
      .array(fc.constantFrom('/', '.', '..', '%2e', '%2F', '%25', '%', '\\', 'a', '%41', '%C3', 'é', ' '))
      .map((parts) => parts.join('')),
  )
  test('it has one spelling, which is plain ASCII and leads nowhere else', () => {
    fc.assert(
      fc.property(paths, (path) => {
        const normal = normalizePath(path)
        expect(normalizePath(normal)).toBe(normal)
        expect(normal).toMatch(/^\/[\x21-\x7E]*$/)
        expect(normal).not.toMatch(/\/\/|\\|%(?![0-9A-F]{2})|(?:^|\/)\.{1,2}(?:\/|$)/)
      }),
      { numRuns: 2_000 },
    )
  })
  test('its file name has no more folders than its path', () => {
    fc.assert(
      fc.property(paths, (path) => {
        const normal = normalizePath(path)
        const name = fileNameOf(normal)
        if (name === undefined) return
        expect(name.split('/')).toHaveLength(normal.replace(/^\/|\/$/g, '').split('/').length)
        expect(name).not.toMatch(/\\|\0|(?:^|\/)\.{1,2}(?:\/|$)/)
      }),
      { numRuns: 2_000 },
    )
  })
})
