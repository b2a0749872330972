import { expect, test } from 'vitest'
import { essence } from './service.ts'

test.each([
  [
    'the last error of a JSON log',
    ['{"level":30,"msg":"started"}', '{"level":60,"msg":"MASTER_KEYS is missing"}', '{"level":30,"msg":"bye"}'],
    'MASTER_KEYS is missing.',
  ],
  ['its cause, where logged', ['{"level":50,"err":{"message":"no route"},"msg":"failed"}'], 'no route.'],
  [
    'a thrown error among its stack',
    [
      'file:///x.ts:1',
      'throw new Error()',
      '^',
      'TypeError [ERR_X]: wrong thing',
      '    at x (file:///x.ts:1:2)',
      '',
      'Node.js v24.0.0',
    ],
    'wrong thing.',
  ],
  ['a plain last line', ['one', 'PORT is missing: expected a port.'], 'PORT is missing: expected a port.'],
  ['nothing at all', [], 'it wrote no reason.'],
])('the essence of an output is %s', (_, lines, expected) => {
  expect(essence(lines)).toBe(expected)
})
