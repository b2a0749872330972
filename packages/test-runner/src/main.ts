import { type ChildProcess, spawn } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { describeMachine } from './machine.ts'
import { readFromFolder, readQuarantine } from './quarantine.ts'
import { exitCode, failedFiles, type PackageResult, type SecondRun } from './outcome.ts'
import { readReport } from './report.ts'
import { summarize } from './summarize.ts'
import { asksEngines } from './engines.ts'
import { REPORT_FILE } from './test-run.ts'
import { locateTestFile, repository, testedPackages } from './workspace.ts'

/** Beyond this many, a change is broken and not unlucky. */
const SECOND_RUNS_MAX = 10
const ORPHANS_MS = 1_000
const ALONE_FILE = '.test/alone.json'

const say = (line: string): void => void process.stdout.write(`${line}\n`)

/** Everything that tests and their programs leave in a temporary folder goes with the run. */
const temporary = makeTemporaryFolder()
let running: ChildProcess | undefined
let isInterrupted = false

async function run(command: string, args: readonly string[], cwd: string, env: NodeJS.ProcessEnv): Promise<number> {
  if (isInterrupted) await endInterrupted()
  running = spawn(command, args, { cwd, env, stdio: ['ignore', 'inherit', 'inherit'] })
  const [code] = (await once(running, 'exit')) as [number | null]
  if (isInterrupted) await endInterrupted()
  return code ?? 1
}

async function endInterrupted(): Promise<never> {
  // A Postgres that lost its owner takes a moment to end, and writes meanwhile.
  await sleep(ORPHANS_MS)
  await removeTemporaryFolder()
  process.exit(130)
}

function makeTemporaryFolder(): string {
  // Short, since sockets of Functions are made below it.
  const folder = mkdtempSync(join(tmpdir(), 't'))
  // As any temporary folder: some programs of tests run as users of their own.
  chmodSync(folder, 0o1777)
  return folder
}

// rmSync takes a file that another process removes meanwhile for the end of its work.
const removeTemporaryFolder = (): Promise<void> => rm(temporary, { recursive: true, force: true, maxRetries: 10 })

/** The members of turbo's summary of a run that are read here. */
interface TurboSummary {
  tasks: {
    task: string
    package: string
    directory: string
    cache: { status: 'HIT' | 'MISS' }
    execution?: { exitCode: number | null }
  }[]
}

/** Reads and removes the summary that turbo wrote of the run that just ended. */
function takeTurboSummary(): TurboSummary {
  const folder = join(repository, '.turbo/runs')
  // Names begin with the time.
  const newest = readdirSync(folder).sort().at(-1)
  if (newest === undefined) throw new Error(`turbo left no summary in ${folder}`)
  const summary = JSON.parse(readFileSync(join(folder, newest), 'utf8')) as TurboSummary
  rmSync(folder, { recursive: true })
  return summary
}

/** Splits the command's arguments: options of turbo, test files of one package, and options of vitest behind `--`. */
function readArguments(args: readonly string[]): { turbo: string[]; vitest: string[] } {
  const end = args.includes('--') ? args.indexOf('--') : args.length
  const turbo: string[] = []
  const vitest = args.slice(end + 1)
  for (const word of args.slice(0, end)) {
    const located = locateTestFile(word)
    if (located === undefined) turbo.push(word)
    else {
      turbo.push(`--filter=${located.name}`)
      vitest.unshift(located.file)
    }
  }
  return { turbo: [...new Set(turbo)], vitest }
}

/** Runs each failed file once more, by itself, with the same seeds, once nothing else runs. */
async function runAgain(results: readonly PackageResult[], env: NodeJS.ProcessEnv): Promise<SecondRun[]> {
  const failed = results.flatMap((result) => failedFiles(result).map((file) => ({ result, file })))
  const today = new Date().toISOString().slice(0, 10)
  const quarantine = readQuarantine(readFromFolder(pathToFileURL(`${repository}/`)), today)
  const secondRuns: SecondRun[] = []
  for (const [index, { result, file }] of failed.entries()) {
    const path = `${result.folder}/${file.path}`
    const isTried = index < SECOND_RUNS_MAX
    const folder = join(repository, result.folder)
    if (isTried) {
      say(`\nOnce more, alone: ${path}`)
      rmSync(join(folder, ALONE_FILE), { force: true })
      await run(join(folder, 'node_modules/.bin/vitest'), ['run', file.path], folder, {
        ...env,
        TEST_REPORT_FILE: ALONE_FILE,
      })
    }
    const again = isTried
      ? readReport(join(folder, ALONE_FILE))?.files.find((each) => each.path === file.path)
      : undefined
    const hasPassed = again?.state === 'passed'
    const names = file.tests.filter(({ state }) => state === 'failed').map(({ name }) => name)
    secondRuns.push({
      path,
      first: file.errors,
      alone: again?.errors ?? [
        isTried ? 'it ended without a report' : `only the first ${SECOND_RUNS_MAX} are run again`,
      ],
      hasPassed,
      isLetThrough:
        hasPassed &&
        names.length > 0 &&
        names.every((name) => quarantine.some((entry) => entry.file === path && entry.test === name)),
    })
  }
  return secondRuns
}

/** Runs the tests of all packages, or of those that the arguments choose, and prints what came of it. Returns the exit code. */
async function runTests(args: readonly string[]): Promise<number> {
  const { turbo, vitest } = readArguments(args)
  // oxlint-disable-next-line node/no-process-env -- the command's own environment
  const inherited = process.env
  const seed = inherited['TEST_SEED'] ?? String(randomInt(2 ** 31))
  const env: NodeJS.ProcessEnv = {
    FUZZ_SEED: seed,
    ...inherited,
    TMPDIR: temporary,
    TEST_SEED: seed,
    TEST_RUN: 'whole',
    TEST_MACHINE: describeMachine(inherited),
  }
  const packages = testedPackages().filter(
    ({ folder }) => env['TEST_SCOPE'] !== 'engines' || asksEngines(join(repository, folder)),
  )
  const isFiltered = turbo.some((word) => word.startsWith('--filter'))
  say(`Tests of ${isFiltered ? 'the chosen' : `all ${packages.length}`} packages, random choices by TEST_SEED=${seed}`)
  // A run of everything begins anew; what has passed with the same inputs turbo puts back.
  const isAll = !isFiltered && env['TEST_SCOPE'] !== 'engines'
  for (const { folder } of testedPackages())
    rmSync(join(repository, folder, isAll ? '.test' : REPORT_FILE), { recursive: true, force: true })
  const code = await run(
    'turbo',
    [
      'run',
      'test',
      '--concurrency=2',
      '--continue=always',
      '--output-logs=new-only',
      '--summarize',
      ...(isFiltered ? [] : packages.map(({ name }) => `--filter=${name}`)),
      ...turbo,
      ...(vitest.length > 0 ? ['--', ...vitest] : []),
    ],
    repository,
    env,
  )
  const results = takeTurboSummary()
    .tasks.filter(({ task, directory }) => task === 'test' && directory !== '')
    .map(({ package: name, directory: folder, cache, execution }): PackageResult => ({
      name,
      folder,
      report: readReport(join(repository, folder, REPORT_FILE)),
      isCached: cache.status === 'HIT',
      hasFailed: (execution?.exitCode ?? 0) !== 0,
    }))
    .toSorted((a, b) => a.name.localeCompare(b.name))
  const secondRuns = await runAgain(results, env)
  for (const line of summarize(results, secondRuns)) say(line)
  return exitCode(code, results, secondRuns)
}

// What runs gets the signal of a terminal too, and may take a moment to end.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
  process.on(signal, () => {
    isInterrupted = true
    running?.kill(signal)
  })
try {
  process.exitCode = await runTests(process.argv.slice(2))
} finally {
  await removeTemporaryFolder()
}
