import { expect, test } from 'vitest'
import { messageOf } from './report-tests.ts'

test('a summary names the place of a failure in the repository, what was compared, and each cause', () => {
  const cause = {
    message: 'canceling statement',
    stack: 'Error: canceling statement\n    at /r/node_modules/p/index.js:1:1',
  }
  const failed = {
    message: 'Failed query',
    stack: 'Error: Failed query\n    at /r/node_modules/d/index.js:1:1\n    at /r/src/a.ts:2:3',
    diff: '\u001B[32m- Expected\u001B[39m\n- []\n+ ["one"]',
    cause,
  }
  expect(messageOf(failed)).toBe(
    [
      'Error: Failed query',
      '    at /r/src/a.ts:2:3',
      '- Expected',
      '- []',
      '+ ["one"]',
      'Caused by: Error: canceling statement',
    ].join('\n'),
  )
  expect(messageOf({ message: 'no stack' })).toBe('no stack')
})
