import type { PackageResult, SecondRun } from './outcome.ts'
import { countTests, type FileReport } from './report.ts'

const DEAREST = 10
const seconds = (ms: number): string => `${(ms / 1_000).toFixed(1)} s`
const number = (n: number): string => n.toLocaleString('en-US')
const indent = (text: string, by: string): string => text.replaceAll(/^/gm, by)

function packageLine({ name, report, isCached, hasFailed }: PackageResult): string {
  if (report === undefined) return `  ${name.padEnd(28)} ${hasFailed ? 'ended without a report' : 'has no tests here'}`
  const counts = (['passed', 'failed', 'skipped'] as const)
    .map((state) => [countTests(report.files, state), state] as const)
    .filter(([count, state]) => count > 0 || state === 'passed')
    .map(([count, state]) => `${number(count)} ${state}`)
  const more = isCached ? ', not run: it passed with the same files, packages, lockfile, Node and engines' : ''
  return `  ${name.padEnd(28)} ${counts.join(', ')}${more}`
}

/** The tests that took the most CPU time, their child processes included. */
function dearestTests(results: readonly PackageResult[]): string[] {
  return results
    .filter(({ isCached }) => !isCached)
    .flatMap(({ folder, report }) =>
      (report?.files ?? []).flatMap(({ path, tests }) => tests.map((test) => ({ ...test, path: `${folder}/${path}` }))),
    )
    .toSorted((a, b) => b.cpuMs - a.cpuMs)
    .slice(0, DEAREST)
    .map(({ name, path, cpuMs, durationMs }) => `  ${seconds(cpuMs)} CPU, ${seconds(durationMs)}  ${path} > ${name}`)
}

/** What was left out, by reason. */
function reasonLines(results: readonly PackageResult[]): string[] {
  const byReason = new Map<string, { count: number; files: Set<string> }>()
  for (const { folder, report } of results)
    for (const { path, tests } of report?.files ?? [])
      for (const { state, reason = 'no reason given' } of tests) {
        if (state !== 'skipped') continue
        const group = byReason.get(reason) ?? { count: 0, files: new Set() }
        byReason.set(reason, { count: group.count + 1, files: group.files.add(`${folder}/${path}`) })
      }
  return [...byReason].map(([reason, { count, files }]) => `  ${number(count)} of ${[...files].join(', ')}: ${reason}`)
}

function secondRunLines({ path, first, alone, hasPassed, isLetThrough }: SecondRun): string[] {
  return [
    `  ${path}`,
    ...first.map((error) => indent(error, '    ')),
    hasPassed
      ? `    run alone: passed${isLetThrough ? '; it stands in testing/quarantine.json' : ''}`
      : `    run alone: failed\n${alone.map((error) => indent(error, '      ')).join('\n')}`,
    `    just this file: npm test -- ${path}`,
  ]
}

const section = (title: string, lines: readonly string[]): string[] => (lines.length > 0 ? ['', title, ...lines] : [])

/** The last line of a run: what ran here and now, without packages that were not run. */
function countLine(results: readonly PackageResult[]): string {
  const files = results.filter(({ isCached }) => !isCached).flatMap(({ report }): FileReport[] => report?.files ?? [])
  return (['passed', 'failed', 'skipped'] as const).map((state) => `${countTests(files, state)} ${state}`).join(', ')
}

/** The summary of a run of all packages, as lines: counts, what was dear, what was left out, what failed and how to run just that. */
export function summarize(results: readonly PackageResult[], secondRuns: readonly SecondRun[]): string[] {
  const errors = results.flatMap(({ name, report }) =>
    (report?.errors ?? []).map((error) => `  ${name}\n${indent(error, '    ')}`),
  )
  return [
    ...section(
      'Packages',
      results.map((result) => packageLine(result)),
    ),
    ...section('The dearest tests', dearestTests(results)),
    ...section('Left out', reasonLines(results)),
    ...section('Errors outside of any test', errors),
    ...section(
      'Failed',
      secondRuns.flatMap((run) => secondRunLines(run)),
    ),
    '',
    countLine(results),
  ]
}
