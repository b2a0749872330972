import { expect, test } from 'vitest'
import { bareEtag, etagOf, namesEtag } from './entity-tag.ts'

test('an entity tag is strong, quoted, and another for another text', () => {
  expect(etagOf('a')).toMatch(/^"[\w-]{22}"$/)
  expect(etagOf(Buffer.from('a'))).toBe(etagOf('a'))
  expect(etagOf('b')).not.toBe(etagOf('a'))
})

test.each([
  ['"abc"', true],
  ['W/"abc"', true],
  ['abc', true],
  [' "x" , W/"abc" ', true],
  [' * ', true],
  ['"abcd"', false],
  ['abc"', false],
  ['', false],
  ['"x", *', false],
])('If-None-Match: %s names "abc": %s (RFC 9110 §13.1.2)', (list, isNamed) => {
  expect(namesEtag(list, bareEtag('"abc"'))).toBe(isNamed)
})
