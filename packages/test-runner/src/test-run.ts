// oxlint-disable-next-line node/no-process-env -- what a run of tests is told, read once, here
const environment = process.env

export interface TestRun {
  /** 'engines': only files that say which engines can change what they show. */
  scope: 'all' | 'engines'
  /** True under `npm test`, which prints a summary of all packages itself. */
  isWhole: boolean
  /** True under `npm run test:watch`. */
  isWatched: boolean
  /** Where the report of a package goes, relative to its folder. */
  reportFile: string
}

/** The report of a package's last run, relative to its folder; turbo keeps the folder beside the log. */
export const REPORT_FILE = '.test/report.json'

/** What this process was told about the run that it is part of. */
export function readTestRun(env: Record<string, string | undefined> = environment): TestRun {
  return {
    scope: env['TEST_SCOPE'] === 'engines' ? 'engines' : 'all',
    isWhole: env['TEST_RUN'] === 'whole',
    isWatched: env['TEST_RUN'] === 'watch',
    reportFile: env['TEST_REPORT_FILE'] ?? REPORT_FILE,
  }
}
