import { expect, test } from 'vitest'
import { rotationBoundaries } from './rotating-keys.ts'

test.each([
  ['2026-01-01T00:00:00.000Z', '2026-01-01', '2026-07-01'],
  ['2026-06-30T23:59:59.999Z', '2026-01-01', '2026-07-01'],
  ['2026-07-01T00:00:00.000Z', '2026-07-01', '2027-01-01'],
  ['2026-12-31T23:59:59.999Z', '2026-07-01', '2027-01-01'],
])('at %s the boundaries are %s and %s (B §5)', (now, last, next) => {
  expect(rotationBoundaries(new Date(now))).toEqual({
    last: new Date(`${last}T00:00:00.000Z`),
    next: new Date(`${next}T00:00:00.000Z`),
  })
})
