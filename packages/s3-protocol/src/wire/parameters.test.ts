import { expect, test } from 'vitest'
import { isBucketName } from './bucket-name.ts'
import { readCount, readEncoding } from './list-parameters.ts'
import { readPartNumber } from './part-number.ts'
import { headerText, readRawHeaders } from './raw-headers.ts'
import { readCopySource } from './read-copy-source.ts'
import { readTagDocument, readTagHeader } from './read-tags.ts'

test('a bucket name is 3 to 63 lower-case letters, digits and hyphens, no hyphen first or last', () => {
  for (const name of ['abc', '0-9', 'a'.repeat(63)]) expect(isBucketName(name), name).toBe(true)
  for (const name of ['ab', 'a'.repeat(64), '-ab', 'ab-', 'a.b', 'Abc', 'a_b', 'äbc', ''])
    expect(isBucketName(name), name).toBe(false)
})

test.each([
  ['/b/k', { bucket: 'b', key: 'k' }],
  ['b/k', { bucket: 'b', key: 'k' }],
  ['/b/a/../%2Fk+1', { bucket: 'b', key: 'a/..//k+1' }],
  ['/b/k?versionId=null', { bucket: 'b', key: 'k' }],
  ['/b/k?versionId=1', 'NoSuchVersion'],
  ['/b/k?acl', 'InvalidArgument'],
  ['/b/', 'InvalidArgument'],
  ['/b', 'InvalidArgument'],
  ['', 'InvalidArgument'],
  ['/b/%ff', 'InvalidArgument'],
  [`/b/${'k'.repeat(1_025)}`, 'KeyTooLongError'],
])('the copy source %s is %o', (header, meaning) => {
  if (typeof meaning === 'string')
    expect(() => readCopySource(header)).toThrow(expect.objectContaining({ code: meaning }))
  else expect(readCopySource(header)).toEqual(meaning)
})

test('tags come from a header or a document in their order, up to ten, each key once', () => {
  expect(readTagHeader(undefined)).toEqual([])
  expect(readTagHeader('a=1&2=x+y&c=%C3%BC&1')).toEqual([
    ['a', '1'],
    ['2', 'x y'],
    ['c', 'ü'],
    ['1', ''],
  ])
  const document = (tags: string) => Buffer.from(`<Tagging><TagSet>${tags}</TagSet></Tagging>`)
  const tag = (key: string) => `<Tag><Key>${key}</Key><Value>v</Value></Tag>`
  expect(readTagDocument(document(tag('b') + tag('1')), 'Object')).toEqual([
    ['b', 'v'],
    ['1', 'v'],
  ])
  for (const tags of [tag('a') + tag('a'), tag(''), tag('k'.repeat(129)), 'abcdefghijk'.split('').map(tag).join('')])
    expect(() => readTagDocument(document(tags), 'Object')).toThrow(expect.objectContaining({ code: 'InvalidTag' }))
  for (const text of ['<Tag/>', '<Tag><Key>a</Key></Tag>', '<Other><Key>a</Key><Value>b</Value></Other>'])
    expect(() => readTagDocument(document(text), 'Object')).toThrow(expect.objectContaining({ code: 'MalformedXML' }))
  const tags = (count: number) => document(Array.from({ length: count }, (_, i) => tag(`k${i}`)).join(''))
  expect(readTagDocument(tags(50), 'Bucket')).toHaveLength(50)
  expect(() => readTagDocument(tags(51), 'Bucket')).toThrow(expect.objectContaining({ code: 'InvalidTag' }))
})

test('a count is bounded, and a part number lies between 1 and 10,000', () => {
  expect([undefined, '', '0', '7', '9999999999'].map((text) => readCount(text, 'max-keys', 1_000))).toEqual([
    1_000, 1_000, 0, 7, 1_000,
  ])
  expect(() => readCount('-1', 'max-keys', 1_000)).toThrow('max-keys must be a number')
  expect(readPartNumber('10000')).toBe(10_000)
  for (const text of ['0', '10001', '-1', '1.5', '', '1e3'])
    expect(() => readPartNumber(text)).toThrow(expect.objectContaining({ code: 'InvalidArgument' }))
})

test('keys in a list are written as they are or as in a URL, with slashes', () => {
  expect(readEncoding(undefined).write('a b/\u0001')).toBe('a b/\u0001')
  expect(readEncoding('url').write('a b/\u0001ü')).toBe('a%20b/%01%C3%BC')
  expect(() => readEncoding('base64')).toThrow(expect.objectContaining({ code: 'InvalidArgument' }))
})

test('repeated headers are joined, and latin1 is read as UTF-8 if it can be', () => {
  expect([...readRawHeaders(['A', '1', 'b', '2', 'a', '3'])]).toEqual([
    ['a', '1,3'],
    ['b', '2'],
  ])
  expect(headerText(Buffer.from('ü').toString('latin1'))).toBe('ü')
  expect(headerText('\u00fc')).toBe('ü')
  expect(headerText(Buffer.from('\ufeffü').toString('latin1'))).toBe('\ufeffü')
})
