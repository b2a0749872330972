import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { testFiles } from './engines.ts'
import { locateTestFile, repository } from './workspace.ts'

// `npm run drill [-- STEP [FILE…]]`: what no change can wait for. docs/testing.md says when to run it.

// oxlint-disable-next-line node/no-process-env -- the command's own environment
const inherited = process.env
const LUCK_ROUNDS = 10
/** A race, a crash or a stream: what luck decides about, unless the order of events is proven. */
const LUCKY = /\bholding\(|SIGKILL|SIGSTOP|setTimeout|\bsleep\(/

const say = (line: string): void => void process.stdout.write(`${line}\n`)

async function run(
  command: string,
  args: readonly string[],
  cwd: string,
  env: Record<string, string>,
): Promise<boolean> {
  const child = spawn(command, args, { cwd, env: { ...inherited, ...env }, stdio: ['ignore', 'inherit', 'inherit'] })
  const [code] = (await once(child, 'exit')) as [number | null]
  return code === 0
}

/** A whole `npm test` at full size, whatever passed before. */
const runAll = (env: Record<string, string>, ...args: string[]): Promise<boolean> =>
  run(process.execPath, [join(import.meta.dirname, 'main.ts'), ...args, '--force'], repository, { DRILL: '1', ...env })

/** Runs files ten times each on one core, beside a process that never waits. */
async function runUnlucky(files: readonly string[]): Promise<boolean> {
  const chosen =
    files.length > 0
      ? files
      : testFiles(repository)
          .filter((path) => LUCKY.test(readFileSync(join(repository, path), 'utf8')))
          .map((path) => join(repository, path))
  const failures = new Map<string, number>()
  const busy: ChildProcess = spawn('taskset', ['-c', '0', process.execPath, '--eval', 'for (;;);'])
  try {
    for (let round = 1; round <= LUCK_ROUNDS; round++)
      for (const path of chosen) {
        const located = locateTestFile(path)
        if (located === undefined) throw new Error(`${path} is not a test file`)
        say(`\nRound ${round} of ${LUCK_ROUNDS}: ${path}`)
        const folder = join(repository, located.folder)
        const vitest = join(folder, 'node_modules/.bin/vitest')
        if (!(await run('taskset', ['-c', '0', vitest, 'run', located.file], folder, { TEST_SEED: String(round) })))
          failures.set(path, (failures.get(path) ?? 0) + 1)
      }
  } finally {
    busy.kill('SIGKILL')
  }
  for (const [path, count] of failures) say(`${path} failed in ${count} of ${LUCK_ROUNDS} rounds`)
  return failures.size === 0
}

/** Makes each project of the table anew and has it built. */
async function runStarters(): Promise<boolean> {
  const api = join(repository, 'services/api')
  const folder = await mkdtemp(join(tmpdir(), 'starters-'))
  try {
    return await run(join(api, 'node_modules/.bin/vitest'), ['run', 'test/frameworks-starters.test.ts'], api, {
      DRILL: '1',
      TEST_FRAMEWORKS: folder,
      TEST_FRAMEWORKS_SOURCE: '1',
    })
  } finally {
    await rm(folder, { recursive: true })
  }
}

const { TEST_DATABASE_URL, TEST_REDIS_URL, TEST_S3_URL } = inherited
const withoutEngines = { TEST_DATABASE_URL: '', TEST_REDIS_URL: '', TEST_S3_URL: '' }

/** The steps, by name; those without their engines are left out, which is said. */
const steps: Record<string, (files: readonly string[]) => Promise<boolean>> = {
  /** Everything on the embedded engines. */
  embedded: (files) => runAll(withoutEngines, ...files),
  /** Everything, not only what says that an engine can change it. */
  async engines(files) {
    if (TEST_DATABASE_URL && TEST_REDIS_URL && TEST_S3_URL) return runAll({}, ...files)
    say(
      'Left out: TEST_DATABASE_URL, TEST_REDIS_URL and TEST_S3_URL name the engines (.ci/start-s3 starts an S3 server)',
    )
    return true
  },
  luck: runUnlucky,
  /** What an idle platform holds, some minutes after a first start and after a second one. */
  memory: () => run(process.execPath, [join(repository, 'infra/launcher/drill-memory.ts')], repository, {}),
  starters: runStarters,
}

const [name, ...files] = process.argv.slice(2)
const chosen = name === undefined ? Object.entries(steps) : Object.entries(steps).filter(([step]) => step === name)
if (chosen.length === 0) {
  process.stderr.write(`${name} is not one of the steps ${Object.keys(steps).join(', ')}\n`)
  process.exitCode = 2
}
for (const [step, drill] of chosen) {
  say(`\n== ${step}`)
  if (!(await drill(files))) process.exitCode = 1
}
