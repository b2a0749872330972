import { expect, test } from 'vitest'
import { isLowerCaseUuid, isUuid } from './is-uuid.ts'

test.each([
  ['0199a3f0-5b7c-7cc0-9d3f-2f6f5c1b7a10', true, true],
  ['00000000-0000-0000-0000-000000000000', true, true],
  ['0199A3F0-5b7c-7cc0-9d3f-2f6f5c1b7a10', true, false],
  ['0199a3f05b7c7cc09d3f2f6f5c1b7a10', false, false],
  ['{0199a3f0-5b7c-7cc0-9d3f-2f6f5c1b7a10}', false, false],
  ['0199a3f0-5b7c-7cc0-9d3f-2f6f5c1b7a10\n', false, false],
  ['0199a3f0-5b7c-7cc0-9d3f-2f6f5c1b7a1g', false, false],
  ['', false, false],
])('%s: a UUID in either case %s, in lower case %s', (text, either, lower) => {
  expect([isUuid(text), isLowerCaseUuid(text)]).toEqual([either, lower])
})
