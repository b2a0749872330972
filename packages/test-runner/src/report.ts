import { readFileSync } from 'node:fs'

/** One test, as a run of its file left it. */
export interface TestReport {
  /** With the names of the groups around it, separated by ` > `. */
  name: string
  state: 'passed' | 'failed' | 'skipped'
  durationMs: number
  /** Child processes included; 0 for a test that did not run. */
  cpuMs: number
  /** Why it was skipped, where somebody said so. */
  reason?: string
}

export interface FileReport {
  /** Relative to the package. */
  path: string
  state: 'passed' | 'failed' | 'skipped'
  /** Messages of failed tests and of the file itself, such as an import or a hook that failed. */
  errors: string[]
  tests: TestReport[]
}

/** What a package's run writes for the summary. */
export interface PackageReport {
  files: FileReport[]
  /** Errors that belong to no test: rejections that nobody handled, a worker that ended. */
  errors: string[]
}

/** Reads a report; undefined if the run did not come to write one. */
export function readReport(path: string): PackageReport | undefined {
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as PackageReport
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

export const countTests = (files: readonly FileReport[], state: TestReport['state']): number =>
  files.reduce((sum, { tests }) => sum + tests.filter((test) => test.state === state).length, 0)
