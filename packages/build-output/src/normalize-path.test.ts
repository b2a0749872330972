import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { fileNameOf, normalizePath, normalizeWrittenPath } from './normalize-path.ts'
import { pathSpellings } from './path-spellings.ts'

test.each(pathSpellings)('%j is spelled %s', (path, expected) => {
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
