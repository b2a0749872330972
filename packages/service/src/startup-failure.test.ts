import { expect, test } from 'vitest'
import { startupFailure } from './startup-failure.ts'

const env = { DATABASE_URL: 'postgres://api:hunter2@db.example.com:6432/api' }
const failure = (code: string, message = 'no') => Object.assign(new Error(message), { code })

test('a database that cannot be reached is named by host and port, without user and password', () => {
  const wrapped = new Error('Failed query', { cause: failure('ECONNREFUSED') })
  expect(startupFailure(wrapped, env)).toBe(
    'The database of DATABASE_URL cannot be reached at db.example.com:6432 (ECONNREFUSED).',
  )
  expect(startupFailure(failure('ENOTFOUND'), { DATABASE_URL: 'postgres://db/api' })).toContain('reached at db:5432 (')
})

test('names in the statement that makes a role the owner are quoted', () => {
  const sentence = startupFailure(failure('42501', 'permission denied for database my-api'), {
    DATABASE_URL: 'postgres://my%22role:hunter2@db/my-api',
  })
  expect(sentence).toContain('(permission denied for database my-api)')
  expect(sentence).toContain('ALTER DATABASE "my-api" OWNER TO "my""role";')
  expect(sentence).not.toContain('hunter2')
})

test('a name of HOST that nobody knows is not blamed on the database', () => {
  const unknown = Object.assign(failure('ENOTFOUND', 'getaddrinfo ENOTFOUND nonsense'), { hostname: 'nonsense' })
  expect(startupFailure(unknown, env)).toBe('Cannot start: getaddrinfo ENOTFOUND nonsense')
})
