import { expect, test } from 'vitest'
import { z } from 'zod'
import { ConfigError, count, flag, list, origin, port, readConfig } from './config.ts'

const schema = z.object({
  PORT: port.describe('a TCP port, such as 4000'),
  URL: origin.describe('an origin, such as https://example.com'),
  ON: flag.default(false),
  POOL: count.default(10),
  NAMES: list,
})

test('a right environment is read, an empty variable counts as absent', () => {
  expect(
    readConfig(schema, { PORT: '0', URL: 'https://Example.com/', ON: '', POOL: '20', NAMES: 'a, b,,c', OTHER: 'x' }),
  ).toEqual({
    PORT: 0,
    URL: 'https://example.com',
    ON: false,
    POOL: 20,
    NAMES: ['a', 'b', 'c'],
  })
})

test('every wrong variable is named with what was expected, and its value is not shown', () => {
  const read = () => readConfig(schema, { PORT: '99999', URL: 'https://hunter2:x@example.com/path', ON: 'yes' })
  expect(read).toThrow(ConfigError)
  expect(read).toThrow(/PORT is not valid .*: expected a TCP port, such as 4000/)
  expect(read).toThrow(/URL is not valid .*: expected an origin, such as https:\/\/example.com/)
  expect(read).toThrow(/ON is not valid/)
  expect(read).not.toThrow(/hunter2/)
  expect(() => readConfig(schema, {})).toThrow(/PORT is missing: expected a TCP port/)
})
