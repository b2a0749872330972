import type { FileReport, PackageReport } from './report.ts'

/** A package after the run. */
export interface PackageResult {
  name: string
  /** Relative to the repository. */
  folder: string
  /** undefined: the run ended before it could write one. */
  report: PackageReport | undefined
  /** True if it was skipped, since it passed with the same inputs before. */
  isCached: boolean
  hasFailed: boolean
}

/** A failed file that was run once more, alone. */
export interface SecondRun {
  /** Relative to the repository. */
  path: string
  first: readonly string[]
  /** Errors of the run alone; none if it passed. */
  alone: readonly string[]
  hasPassed: boolean
  /** True if all that failed in it stands in testing/quarantine.json and passed alone. */
  isLetThrough: boolean
}

export const failedFiles = ({ report }: PackageResult): FileReport[] =>
  (report?.files ?? []).filter(({ state }) => state === 'failed')

/** True if all that failed in a package is known by name, passed alone, and stands in the quarantine. */
function isLetThrough(result: PackageResult, secondRuns: readonly SecondRun[]): boolean {
  const files = failedFiles(result)
  return (
    files.length > 0 &&
    result.report?.errors.length === 0 &&
    files.every(({ path }) => secondRuns.some((run) => run.path === `${result.folder}/${path}` && run.isLetThrough))
  )
}

/**
 * The exit code of a run. A failure stays one whether or not the file passes alone, unless it stands in the quarantine.
 *
 * runCode: what the run of all packages ended with.
 */
export function exitCode(runCode: number, results: readonly PackageResult[], secondRuns: readonly SecondRun[]): 0 | 1 {
  if (runCode === 0) return 0
  const failed = results.filter(({ hasFailed }) => hasFailed)
  return failed.length > 0 && failed.every((result) => isLetThrough(result, secondRuns)) ? 0 : 1
}
