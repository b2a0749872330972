import { mkdir, writeFile } from 'node:fs/promises'
import { availableParallelism, cpus, loadavg } from 'node:os'
import { dirname, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { findDrops, recordBaseline } from './baseline.ts'
import { inheritedEnvironment, readBenchConfig } from './config.ts'
import { pinning } from './cores.ts'
import { openLab } from './lab.ts'
import { runSuite, type SuiteResult } from './run-suite.ts'
import type { Suite } from './suite.ts'
import { ai, aiBudgetDelay, aiDelay, aiOpenStreams, aiStream } from './suites/ai.ts'
import { aiHolds } from './suites/ai-holds.ts'
import { aiUsage } from './suites/ai-usage.ts'
import { cliDeploy, cliStart } from './suites/cli.ts'
import { consoleLog, consoleOpen } from './suites/console.ts'
import {
  compressedList,
  compressedListBr,
  compressedPage,
  compressedPageBr,
  uncompressedPage,
  uncompressedShort,
} from './suites/compressed.ts'
import { exchange } from './suites/exchange.ts'
import { imageHit, imageMemory, imageMiss } from './suites/images.ts'
import { isrHit, isrMiss, isrRenewal } from './suites/isr.ts'
import { list } from './suites/list.ts'
import { objectLists } from './suites/object-lists.ts'
import { getSmall, putSmall } from './suites/objects.ts'
import { build } from './suites/build.ts'
import { deploy } from './suites/deploy.ts'
import { deployments } from './suites/deployments.ts'
import { edges, edgeShares } from './suites/edges.ts'
import { discovery, jwks, rotate, rotateOnce, userinfo } from './suites/oidc.ts'
import { passwordFlood } from './suites/password-flood.ts'
import { rcloneSync } from './suites/rclone.ts'
import { functionEgress } from './suites/function-egress.ts'
import { functions, functionSockets, functionStreams } from './suites/functions.ts'
import { functionScaling } from './suites/function-scaling.ts'
import { frameworkStart, functionStart } from './suites/function-start.ts'
import { neighbourChildren, neighbourLoops, neighbourMemory } from './suites/neighbour.ts'
import { pinned, pinnedElsewhere } from './suites/pinned.ts'
import { plan } from './suites/plan.ts'
import { read } from './suites/read.ts'
import { requestSummary } from './suites/request-summary.ts'
import { requestLogs } from './suites/request-logs.ts'
import { sdkCall, sdkUpload } from './suites/sdk.ts'
import { staticLarge, staticSmall } from './suites/static-files.ts'
import { routes } from './suites/routes.ts'
import { getLarge, putLarge, tus } from './suites/transfers.ts'
import { twoProcesses } from './suites/two-processes.ts'
import { vercelHeader, vercelRules } from './suites/vercel-rules.ts'
import { formatTable } from './table.ts'

/** Every comparison there is. A new one is a file in suites/ and its line here. */
const suites: readonly Suite[] = [
  read,
  exchange,
  twoProcesses,
  list,
  requestLogs,
  requestSummary,
  rotate,
  rotateOnce,
  userinfo,
  discovery,
  jwks,
  passwordFlood,
  getSmall,
  putSmall,
  getLarge,
  putLarge,
  tus,
  staticSmall,
  staticLarge,
  vercelRules,
  vercelHeader,
  imageHit,
  imageMiss,
  imageMemory,
  deploy,
  build,
  plan,
  functions,
  compressedPage,
  compressedPageBr,
  compressedList,
  compressedListBr,
  uncompressedPage,
  uncompressedShort,
  functionSockets,
  functionStreams,
  functionStart,
  functionEgress,
  frameworkStart,
  edges,
  edgeShares,
  pinned,
  pinnedElsewhere,
  deployments,
  isrHit,
  isrMiss,
  isrRenewal,
  neighbourLoops,
  neighbourChildren,
  neighbourMemory,
  functionScaling,
  objectLists,
  rcloneSync,
  routes,
  ai,
  aiStream,
  aiDelay,
  aiBudgetDelay,
  aiHolds,
  aiUsage,
  aiOpenStreams,
  sdkCall,
  sdkUpload,
  cliStart,
  cliDeploy,
  consoleOpen,
  consoleLog,
]

const ROUNDS_MIN = 1
/** What the server, the load maker and the databases add to the load average by themselves. */
const OWN_LOAD = 1
const report = (line: string): void => void process.stderr.write(`${line}\n`)

function readArguments() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      rounds: { type: 'string', default: '5' },
      seconds: { type: 'string', default: '5' },
      out: { type: 'string', default: resolve(import.meta.dirname, 'results/latest.json') },
      check: { type: 'boolean', default: false },
      record: { type: 'boolean', default: false },
    },
  })
  const unknown = positionals.find((name) => !suites.some((suite) => suite.name === name))
  if (unknown !== undefined)
    throw new Error(`There is no suite ${unknown}; choose from ${suites.map(({ name }) => name).join(', ')}`)
  const [rounds, seconds] = [Number(values.rounds), Number(values.seconds)]
  if (!Number.isInteger(rounds) || rounds < ROUNDS_MIN) throw new Error('--rounds takes a whole number from 1')
  if (!Number.isInteger(seconds) || seconds < 1 || seconds > 60) throw new Error('--seconds takes 1 to 60')
  return {
    ...values,
    rounds,
    seconds,
    chosen: suites.filter(({ name, isLarge }) => (positionals.length === 0 ? !isLarge : positionals.includes(name))),
  }
}

async function main(): Promise<void> {
  const { rounds, seconds, out, check, record, chosen } = readArguments()
  // oxlint-disable-next-line node/no-process-env -- the one place that reads it
  const environment = process.env
  const env = inheritedEnvironment(environment)
  const lab = await openLab(readBenchConfig(environment), env)
  const interrupted = () => void lab.close().finally(() => process.exit(130))
  process.once('SIGINT', interrupted).once('SIGTERM', interrupted)

  const results: SuiteResult[] = []
  try {
    for (const suite of chosen) {
      const result = await runSuite(suite, lab, { rounds, seconds, env, report })
      results.push(result)
      process.stdout.write(`\n${formatTable(result)}\n`)
    }
  } finally {
    await lab.close()
  }
  const [load = 0] = loadavg()
  const machine = { cores: availableParallelism(), model: cpus()[0]?.model, node: process.version, pinning, load }
  await mkdir(dirname(out), { recursive: true })
  await writeFile(out, `${JSON.stringify({ at: new Date().toISOString(), machine, suites: results }, null, 2)}\n`)
  report(`${pinning}; figures are in ${out}`)
  if (load > availableParallelism() + OWN_LOAD)
    report(`The machine did other work meanwhile (load ${load.toFixed(1)}): throughput and latency say little`)

  if (record) await recordBaseline(results)
  if (!check) return
  const drops = await findDrops(results)
  for (const drop of drops) report(drop)
  if (drops.length > 0) process.exitCode = 1
  else report('No ratio has dropped beyond the margin')
}

try {
  await main()
} catch (error) {
  report(error instanceof Error ? (error.stack ?? error.message) : String(error))
  process.exitCode = 1
}
