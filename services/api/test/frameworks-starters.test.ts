import { readFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { buildsFrameworks, frameworksFolder, isDrill } from '@platform/testkit/test-environment'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { visit } from './deploy.ts'
import { logOf, newDeployment, until } from './deployments.ts'
import { entriesOf, npmrcOf } from './frameworks.ts'
import { makeStarter } from './make-starter.ts'
import { registryUrl } from './run-tool.ts'
import { newOwner } from './scenario.ts'
import { type Starter, starters } from './starters.ts'
import type { ZipEntry } from './zip.ts'

/** Long enough to lock, install and build the largest of them on a machine that does other things too. */
const PROJECT_MS = 600_000

const chosen = starters.filter(({ isInCi }) => isInCi || isDrill)
const everyWarning = new Set(starters.flatMap(({ warnings }) => warnings))

/** What became of a project, as the drill prints it. */
interface Outcome {
  status: string
  /** The kind of deployment, or why there is none. */
  result: string
  seconds: number
  /** Sentences about what is not as expected. */
  faults: string[]
}
const outcomes = new Map<Starter, Outcome>()

/** The project's sources; npm finds packages where it does on this machine. */
async function archiveOf(project: string): Promise<ZipEntry[]> {
  const entries = await entriesOf(project, '')
  const npmrc = entries.find(({ name }) => name === '.npmrc')
  const own = npmrc && (await readFile(join(project, '.npmrc'), 'utf8'))
  return [...entries.filter((entry) => entry !== npmrc), await npmrcOf(own)]
}

/** Answers of the requests that are not as expected. */
async function findWrongAnswers(platform: TestPlatform, host: string, { requests }: Starter): Promise<string[]> {
  const faults: string[] = []
  let first: string | undefined
  for (const [path, status, text] of requests) {
    const found = typeof path === 'string' ? path : path.exec(first ?? '')?.[1]
    if (found === undefined) {
      faults.push(`The first answer names no ${String(path)}: ${first}`)
      continue
    }
    const got = await visit(platform, host, found)
    first ??= got.text
    if (got.status !== status || !got.text.includes(text))
      faults.push(
        `${found} answers ${got.status} instead of ${status} with ${JSON.stringify(text)}: ${got.text.slice(0, 500)}`,
      )
  }
  return faults
}

/** Warnings that are missing, and those of other projects that are there. */
function findWrongWarnings(log: string, { warnings }: Starter): string[] {
  const lines = log.split('\n').filter((line) => line.startsWith('WARN '))
  return [...everyWarning].flatMap((warning) => {
    const line = lines.find((each) => warning.test(each))
    if ((line !== undefined) === warnings.includes(warning)) return []
    return [line === undefined ? `No warning is like ${String(warning)}` : `There is a warning: ${line}`]
  })
}

async function deployStarter(platform: TestPlatform, row: Starter): Promise<Outcome & { log: string }> {
  const project = await makeStarter(row, resolve(frameworksFolder ?? '', 'starters', row.id))
  const owner = await newOwner(platform)
  const startedAt = performance.now()
  const { id } = await newDeployment(platform, owner, {
    archive: await archiveOf(project),
    ...(row.rootDirectory !== undefined && { rootDirectory: row.rootDirectory }),
  })
  const isEnded = (status: string) => status === 'ACTIVE' || status === 'FAILED'
  const ended = await until(platform, id, ({ status }) => isEnded(status), PROJECT_MS)
  const seconds = (performance.now() - startedAt) / 1000
  const log = await logOf(platform, id)
  const { status, failureReason, output, label } = ended
  const result = status === 'ACTIVE' ? (output?.kind ?? 'no output') : (failureReason ?? 'no reason')
  const faults = findWrongWarnings(log, row)
  if (typeof row.expected !== 'string') {
    if (status === 'ACTIVE' || !row.expected.refused.test(result))
      faults.push(`It is ${status}, ${result}, instead of being refused with ${String(row.expected.refused)}`)
  } else if (status !== 'ACTIVE' || result !== row.expected) {
    faults.push(`It is ${status}, ${result}, instead of ${row.expected}`)
  } else {
    faults.push(...(await findWrongAnswers(platform, `${label}.${platform.api.appsUrl.host}`, row)))
  }
  return { status, result, seconds, faults, log }
}

/** The table that the drill prints. */
function tableOf(rows: ReadonlyMap<Starter, Outcome>): string {
  const lines = [...rows].map(
    ([{ name }, { status, result, seconds, faults }]) =>
      `| ${name} | ${status} | ${result.split('\n', 1)[0]} | ${seconds.toFixed(0)} | ${faults.length === 0 ? 'right' : 'wrong'} |`,
  )
  const right = [...rows.values()].filter(({ faults }) => faults.length === 0).length
  return [
    '| Project | Status | Kind or reason | Seconds | |',
    '|---|---|---|---|---|',
    ...lines,
    `${right} of ${rows.size}`,
    '',
  ].join('\n')
}

describe.skipIf(!buildsFrameworks)('projects as people have them (TEST_FRAMEWORKS_SOURCE has them built)', () => {
  let platform: TestPlatform
  beforeAll(async () => {
    const sources = { BUILD_EGRESS: 'registry', BUILD_REGISTRIES: await registryUrl() }
    platform = await startPlatform({ hasWorker: true, env: { DEFAULT_PLAN: 'pro', ...sources } })
  })
  afterAll(async () => {
    await platform.close()
    if (isDrill) process.stdout.write(tableOf(outcomes))
  })

  test.each(chosen)(
    '$name becomes what its makers meant, or is refused with what to do',
    async (row) => {
      const { log, ...outcome } = await deployStarter(platform, row)
      outcomes.set(row, outcome)
      expect(outcome.faults, log).toEqual([])
    },
    PROJECT_MS,
  )
})
