// engines: none, it tells of engines and asks none
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { expect, test } from 'vitest'
import { findQuarantineFault, type QuarantineEntry, readFromFolder, readQuarantine } from './quarantine.ts'
import { repository } from './workspace.ts'

const entry: QuarantineEntry = {
  file: 'services/api/src/areas/edge/images/images.test.ts',
  test: 'images > an image is made once',
  firstSeen: '2026-03-01',
  until: '2026-03-08',
  failedRun: 'AssertionError: expected 2 to be 1',
  passedRun: '1 passed',
  cause: 'a timer of 50 ms',
}
const today = '2026-03-02'
const faultOf = (more: Partial<QuarantineEntry>, text = '') => findQuarantineFault({ ...entry, ...more }, today, text)

const read = readFromFolder(pathToFileURL(`${repository}/`))

test('testing/quarantine.json holds what may be let through, and nothing that has ended', () => {
  expect(() => readQuarantine(read, new Date().toISOString().slice(0, 10))).not.toThrow()
})

test('every file that testing/quarantine.json names exists', () => {
  const entries = JSON.parse(read('testing/quarantine.json')) as QuarantineEntry[]
  expect(entries.filter(({ file }) => !existsSync(join(repository, file)))).toEqual([])
})

test('a test of a file that does not exist is not let through', () => {
  const gone = { ...entry, file: 'services/api/src/areas/edge/images/gone.test.ts' }
  const readGone = (path: string) => (path === 'testing/quarantine.json' ? JSON.stringify([gone]) : read(path))
  expect(() => readQuarantine(readGone, today)).toThrow(/no such file.*gone\.test\.ts/)
})

test('a test is let through for seven days with both runs and the cause', () => {
  expect(faultOf({})).toBeUndefined()
  expect(findQuarantineFault(entry, '2026-03-08', '')).toBeUndefined()
  expect(findQuarantineFault(entry, '2026-03-09', '')).toBe('it ended on 2026-03-08: mend the test')
  expect(faultOf({ until: '2026-03-09' })).toBe('until is at most 7 days after firstSeen')
  expect(faultOf({ until: 'some day' })).toBe('until is at most 7 days after firstSeen')
  for (const field of ['file', 'test', 'failedRun', 'passedRun', 'cause'])
    expect(faultOf({ [field]: ' ' })).toBe('it needs file, test, failedRun, passedRun and cause')
})

test.each([
  'services/api/src/areas/ai/governance/budgets/budgets.test.ts',
  'services/api/src/areas/ai/gateway/holds/holds.test.ts',
  'services/api/src/areas/ai/gateway/settlement.test.ts',
  'services/api/src/areas/credentials/tokens/tokens.test.ts',
  'services/idp/src/features/sign-in/sign-in.test.ts',
  'packages/auth/src/key-set.test.ts',
  'services/api/test/edges-crash.test.ts',
  'services/api/test/rolling-restart.test.ts',
])('money, sign-in and crashes are never let through: %s', (file) => {
  expect(faultOf({ file })).toBe('money, sign-in and crashes are never let through')
})

test('races are never let through', () => {
  expect(faultOf({}, 'await holding(url, take, racers)')).toBe('races are never let through')
  expect(faultOf({}, "test('one of 100 concurrent copies wins', …)")).toBe('races are never let through')
})

test('the quarantine holds five tests at most', () => {
  const read = (path: string) =>
    path === 'testing/quarantine.json' ? JSON.stringify(Array.from({ length: 6 }, () => entry)) : ''
  expect(() => readQuarantine(read, today)).toThrow('holds at most 5 tests')
})
