import { expect, test } from 'vitest'
import { isRangeCurrent } from './preconditions.ts'

const object = { etag: 'e', uploadedAt: new Date('2026-01-02T03:04:05.678Z') }
const DATE = object.uploadedAt.toUTCString()
const EARLIER = 'Fri, 02 Jan 2026 03:04:04 GMT'

test.each([
  [undefined, true],
  ['"e"', true],
  ['"x"', false],
  ['W/"e"', false],
  [DATE, true],
  [EARLIER, false],
])('with If-Range %s a range may be answered: %s', (ifRange, isCurrent) => {
  expect(isRangeCurrent(ifRange, object)).toBe(isCurrent)
})
