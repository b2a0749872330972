import { expect, test } from 'vitest'
import { z } from 'zod'
import { ConfigError, count, findMisspelled, flag, hasFolderIfFile, list, origin, port, readConfig } from './config.ts'

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

test('a list with two wrong entries is named once, without the pattern of an entry', () => {
  const lists = z.object({ LIST: list.pipe(z.array(z.string().regex(/^a/))).describe('as, such as a,ab') })
  expect(() => readConfig(lists, { LIST: 'b,c' })).toThrow(/^LIST is not valid: expected as, such as a,ab$/)
})

test('a retired variable that is set is an error that names its successor, beside what else is wrong', () => {
  const [env, retired] = [
    { URL: 'https://example.com', PORTS: '80', NETS: 'hunter2' },
    { NETS: 'NAMES', GONE: 'NAMES' },
  ]
  expect(() => readConfig(schema, { ...env, PORT: '1', NETS: '' }, retired)).not.toThrow()
  expect(() => readConfig(schema, { ...env, PORT: '1' }, retired)).toThrow(/^NETS is not read any more/)
  expect(() => readConfig(schema, env, retired)).toThrow(
    /^NETS is not read any more: set NAMES in its place, and remove NETS; PORT is missing: expected a TCP port, such as 4000$/,
  )
})

test.each([
  ['REDIS_URI', 'REDIS_URL'],
  ['REDIS_UR', 'REDIS_URL'],
  ['REDISS_URL', 'REDIS_URL'],
  ['REDIS_RUL', 'REDIS_URL'],
  ['EDIS_URL', 'REDIS_URL'],
])('%s beside no %s is named with it, and its value is not shown', (name, meant) => {
  expect(findMisspelled(['PORT', 'REDIS_URL'], { [name]: 'hunter2' })).toEqual([
    `${name} is set but never read, and ${meant} is not set`,
  ])
})

test.each([
  ['two letters away', { REDIS_IRI: 'x' }],
  ['two neighbours away, both changed', { REDIS_XYL: 'x' }],
  ['beside the right one', { REDIS_URI: 'x', REDIS_URL: 'y' }],
  ['empty', { REDIS_URI: '' }],
  ['near a short one', { PORTS: 'x', POST: 'x' }],
  ['known itself', { REDIS_URLS: 'x' }],
])('a variable %s is not named', (_, env) => {
  expect(findMisspelled(['PORT', 'REDIS_URL', 'REDIS_URLS'], env)).toEqual([])
})

test('a required variable that is missing is named with the one that was perhaps meant for it', () => {
  const required = z.object({ DATABASE_URL: z.string().describe('a URL, such as postgres://host/api') })
  expect(() => readConfig(required, { DATABASE_URI: 'hunter2' })).toThrow(
    /^DATABASE_URL is missing: expected [^;]+; DATABASE_URI is set but never read, and DATABASE_URL is not set$/,
  )
})

test('a file: URL has to lead to a folder', () => {
  const urls = ['file:///var/mail', 'file://var/mail', 'file:///a%2fb', 'smtp://mail.example.com', 'file']
  expect(urls.map(hasFolderIfFile)).toEqual([true, false, false, true, true])
})

test('zod comes without its messages in sixty languages, which every process would hold', () => {
  expect(z).not.toHaveProperty('locales')
  expect(z.string().safeParse(1).error?.issues[0]?.message).toBe('Invalid input: expected string, received number')
})
