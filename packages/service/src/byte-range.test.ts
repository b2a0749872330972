import { expect, test } from 'vitest'
import { readRange } from './byte-range.ts'

test.each([
  ['bytes=0-9', { start: 0, end: 9 }],
  ['bytes=90-', { start: 90, end: 99 }],
  ['bytes=90-200', { start: 90, end: 99 }],
  ['bytes=-10', { start: 90, end: 99 }],
  ['bytes=-200', { start: 0, end: 99 }],
  ['bytes=0-18446744073709551616', { start: 0, end: 99 }],
  ['bytes=-18446744073709551616', { start: 0, end: 99 }],
  [`bytes=90-${'9'.repeat(400)}`, { start: 90, end: 99 }],
  ['bytes=99-99', { start: 99, end: 99 }],
  ['bytes=100-', 'unsatisfiable'],
  ['bytes=18446744073709551616-', 'unsatisfiable'],
  ['bytes=18446744073709551616-18446744073709551617', 'unsatisfiable'],
  ['bytes=-0', 'unsatisfiable'],
  ['bytes=5-4', undefined],
  ['bytes=-', undefined],
  ['bytes=0-1,3-4', undefined],
  ['items=0-9', undefined],
  [undefined, undefined],
])('of 100 bytes, %s is %o', (header, range) => {
  expect(readRange(header, 100)).toEqual(range)
})

test('no range touches an empty object', () => {
  expect(readRange('bytes=-1', 0)).toBe('unsatisfiable')
  expect(readRange('bytes=0-', 0)).toBe('unsatisfiable')
})
