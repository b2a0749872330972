import { PostgresRefused } from '@platform/embedded-postgres/postgres-refused'
import { expect, test } from 'vitest'
import { explainFailure } from './explain-failure.ts'
import { StartProblem } from './start-problem.ts'

const coded = (code: string, message = 'x') => Object.assign(new Error(message), { code })

test.each([
  ['a full disk', coded('ENOSPC'), 'The disk of DATA_DIR /data is full'],
  ['a full disk, as initdb tells it', new PostgresRefused('could not write: No space left on device'), 'is full'],
  ['a loopback interface that is down', coded('ENETUNREACH'), 'Bring the loopback interface up'],
  ['what the launcher says itself', new StartProblem('Port 4000 is taken.'), 'Port 4000 is taken.'],
  ['what Postgres says', new PostgresRefused('Postgres says no.'), 'Postgres says no.'],
])('%s is told in a sentence', (_, error, sentence) => {
  const told = explainFailure(error, '/data')
  expect(told).toContain(sentence)
  expect(told).not.toContain('    at ')
})

test('what nobody foresaw is told with its stack', () => {
  expect(explainFailure(new TypeError('a bug'), undefined)).toMatch(/^TypeError: a bug\n {4}at /)
})
