import { readFileSync } from 'node:fs'

/** A test that is known to fail by luck, for as long as somebody mends it. */
export interface QuarantineEntry {
  /** Of the file, relative to the repository. */
  file: string
  /** Its full name. */
  test: string
  /** Day on which it was seen first, YYYY-MM-DD. */
  firstSeen: string
  /** Last day on which it is let through. */
  until: string
  /** Output of the run that failed, and of the one alone that passed. */
  failedRun: string
  passedRun: string
  /** What makes it fail, as far as it is known. */
  cause: string
}

const ENTRIES_MAX = 5
const DAYS_MAX = 7
const DAY_MS = 86_400_000

/** Files whose failures are never luck: money, sign-in, crashes. Races are told by what they use. */
const NEVER = [
  /\/(ai\/governance|holds|budgets|usage|quotas|billing|products)\//,
  /^services\/idp\/|^packages\/auth\/|\/(tokens|api-keys)\//,
  /(crash|restart|outages|cut-over|memory)[^/]*\.test\.ts$/,
  /settlement|ai-budget/,
]
const RACE = /\bholding\(|\brace|concurrent|at once/i

/**
 * Why an entry of testing/quarantine.json is refused; undefined if it holds.
 *
 * today: YYYY-MM-DD. text: of the test file.
 */
export function findQuarantineFault(entry: QuarantineEntry, today: string, text: string): string | undefined {
  const { file, test, firstSeen, until, failedRun, passedRun, cause } = entry
  if (![file, test, failedRun, passedRun, cause].every((field) => typeof field === 'string' && field.trim() !== ''))
    return 'it needs file, test, failedRun, passedRun and cause'
  const [from, to] = [Date.parse(firstSeen), Date.parse(until)]
  if (!(to - from >= 0 && to - from <= DAYS_MAX * DAY_MS)) return `until is at most ${DAYS_MAX} days after firstSeen`
  if (to < Date.parse(today)) return `it ended on ${until}: mend the test`
  if (NEVER.some((pattern) => pattern.test(file))) return 'money, sign-in and crashes are never let through'
  if (RACE.test(text)) return 'races are never let through'
  return undefined
}

/**
 * Reads testing/quarantine.json. Throws if it holds more than five entries or one that is refused, with the reason.
 *
 * read: the text of a file by its path from the repository.
 */
export function readQuarantine(read: (path: string) => string, today: string): QuarantineEntry[] {
  const entries = JSON.parse(read('testing/quarantine.json')) as QuarantineEntry[]
  if (entries.length > ENTRIES_MAX) throw new Error(`testing/quarantine.json holds at most ${ENTRIES_MAX} tests`)
  for (const entry of entries) {
    const fault = findQuarantineFault(entry, today, read(entry.file))
    if (fault !== undefined) throw new Error(`testing/quarantine.json, ${entry.test}: ${fault}`)
  }
  return entries
}

export const readFromFolder =
  (folder: URL) =>
  (path: string): string =>
    readFileSync(new URL(path, folder), 'utf8')
