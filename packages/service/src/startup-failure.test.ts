import { ConfigError } from '@platform/runtime/config'
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

test('a database that answers is not said to be away, and its own words are shown', () => {
  for (const [code, message] of [
    ['25006', 'cannot execute CREATE SCHEMA in a read-only transaction'],
    ['53300', 'too many connections for role "api"'],
  ] as const)
    expect(startupFailure(failure(code, message), env)).toBe(
      `The database of DATABASE_URL answers, and refuses: ${message}.`,
    )
})

test('a name that cannot be decoded is shown as it is', () => {
  const odd = { DATABASE_URL: 'postgres://50%:hunter2@db/50%db' }
  expect(startupFailure(failure('42501', 'permission denied for database 50%db'), odd)).toContain(
    'ALTER DATABASE "50%db" OWNER TO "50%";',
  )
})

test('a role that owns its database and lacks other rights is told those', () => {
  expect(startupFailure(failure('42501', 'permission denied for schema drizzle'), env)).toContain(
    'GRANT USAGE ON SCHEMA drizzle TO "api"; GRANT SELECT ON ALL TABLES IN SCHEMA drizzle TO "api";',
  )
  expect(startupFailure(failure('42501', 'must be owner of table users'), env)).toContain('all that is in there')
})

test('names in the statement that makes a role the owner are quoted', () => {
  const sentence = startupFailure(failure('42501', 'permission denied for database my-api'), {
    DATABASE_URL: 'postgres://my%22role:hunter2@db/my-api',
  })
  expect(sentence).toContain('(permission denied for database my-api)')
  expect(sentence).toContain('ALTER DATABASE "my-api" OWNER TO "my""role";')
  expect(sentence).not.toContain('hunter2')
})

test('a failed start names its cause, although something open could not be closed after it', () => {
  const cause = new ConfigError('OBJECTS_URL is not valid')
  const wrapped = new Error('The start failed', { cause })
  expect(startupFailure(new SuppressedError(new Error('The database hangs'), wrapped), env)).toBe(cause.message)
})

test('a name of HOST that nobody knows is not blamed on the database', () => {
  const unknown = Object.assign(failure('ENOTFOUND', 'getaddrinfo ENOTFOUND nonsense'), { hostname: 'nonsense' })
  expect(startupFailure(unknown, env)).toBe('Cannot start: getaddrinfo ENOTFOUND nonsense')
})
