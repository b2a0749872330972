import { expect, test } from 'vitest'
import { exitCode, type PackageResult, type SecondRun } from './outcome.ts'
import { summarize } from './summarize.ts'

const failed: PackageResult = {
  name: '@platform/api',
  folder: 'services/api',
  isCached: false,
  hasFailed: true,
  report: {
    errors: [],
    files: [
      {
        path: 'test/a.test.ts',
        state: 'failed',
        errors: ['a > breaks\nAssertionError: expected 1 to be 2'],
        tests: [
          { name: 'a > breaks', state: 'failed', durationMs: 20, cpuMs: 10 },
          { name: 'a > holds', state: 'passed', durationMs: 9_000, cpuMs: 4_000 },
          { name: 'a > needs a browser', state: 'skipped', durationMs: 0, cpuMs: 0, reason: 'no chromium' },
        ],
      },
    ],
  },
}
const cached: PackageResult = {
  name: '@platform/errors',
  folder: 'packages/errors',
  isCached: true,
  hasFailed: false,
  report: {
    errors: [],
    files: [
      {
        path: 'src/b.test.ts',
        state: 'passed',
        errors: [],
        tests: [{ name: 'b', state: 'passed', durationMs: 90_000, cpuMs: 90_000 }],
      },
    ],
  },
}
const passedAlone: SecondRun = {
  path: 'services/api/test/a.test.ts',
  first: ['a > breaks\nAssertionError: expected 1 to be 2'],
  alone: [],
  hasPassed: true,
  isLetThrough: false,
}

test('a file that fails and passes alone still fails the run', () => {
  expect(exitCode(1, [failed], [passedAlone])).toBe(1)
})

test('a file in the quarantine that passes alone does not fail the run', () => {
  expect(exitCode(1, [failed], [{ ...passedAlone, isLetThrough: true }])).toBe(0)
})

test('an error outside of any test fails the run, whatever stands in the quarantine', () => {
  const result = {
    ...failed,
    report: { files: failed.report?.files ?? [], errors: ['a rejection that nobody handled'] },
  }
  expect(exitCode(1, [result], [{ ...passedAlone, isLetThrough: true }])).toBe(1)
})

test('a package that ended without a report fails the run', () => {
  expect(exitCode(1, [{ ...failed, report: undefined }], [])).toBe(1)
  expect(exitCode(1, [], [])).toBe(1)
})

test('the summary counts by package, names what was dear, left out and failed, and how to run just that', () => {
  expect(summarize([failed, cached], [passedAlone])).toEqual([
    '',
    'Packages',
    '  @platform/api                1 passed, 1 failed, 1 skipped',
    '  @platform/errors             1 passed, not run: it passed with the same files, packages, lockfile, Node and engines',
    '',
    'The dearest tests',
    '  4.0 s CPU, 9.0 s  services/api/test/a.test.ts > a > holds',
    '  0.0 s CPU, 0.0 s  services/api/test/a.test.ts > a > breaks',
    '  0.0 s CPU, 0.0 s  services/api/test/a.test.ts > a > needs a browser',
    '',
    'Left out',
    '  1 of services/api/test/a.test.ts: no chromium',
    '',
    'Failed',
    '  services/api/test/a.test.ts',
    '    a > breaks\n    AssertionError: expected 1 to be 2',
    '    run alone: passed',
    '    just this file: npm test -- services/api/test/a.test.ts',
    '',
    '1 passed, 1 failed, 1 skipped',
  ])
})
