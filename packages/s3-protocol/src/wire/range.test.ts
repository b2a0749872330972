import { expect, test } from 'vitest'
import { readCopyRange, requireRange } from './range.ts'

test('a range outside the object is InvalidRange, with the size that the object has', () => {
  expect(() => requireRange('bytes=100-', 100)).toThrow(
    expect.objectContaining({
      code: 'InvalidRange',
      status: 416,
      details: { RangeRequested: 'bytes=100-', ActualObjectSize: '100' },
    }),
  )
})

test.each([
  ['bytes=0-99', undefined],
  ['bytes=0-100', 'InvalidRange'],
  ['bytes=0-18446744073709551616', 'InvalidRange'],
  ['bytes=9-8', 'InvalidArgument'],
  ['bytes=0-', 'InvalidArgument'],
  ['bytes=-5', 'InvalidArgument'],
])('the source range %s of 100 bytes is met with %s', (header, code) => {
  if (code === undefined) expect(readCopyRange(header, 100)).toEqual({ start: 0, end: 99 })
  else expect(() => readCopyRange(header, 100)).toThrow(expect.objectContaining({ code }))
})
