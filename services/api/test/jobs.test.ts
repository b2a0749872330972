// engines: postgres, s3
import { createHash, randomBytes } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { one } from '@platform/runtime/database'
import { jobsAt, startWorker } from '@platform/testing/api'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { eq } from 'drizzle-orm'
import { type Metric, register } from 'prom-client'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { linkFiles, storeFiles } from '../src/areas/deploy/artifacts/store-files.ts'
import { artifacts } from '../src/areas/deploy/artifacts/table.ts'
import { deployments } from '../src/areas/deploy/deployments/table.ts'
import { blobs } from '../src/areas/storage/objects/table.ts'
import { newDeployment } from './deployments.ts'
import { newOwner } from './scenario.ts'

const HOUR_MS = 3_600_000

let platform: TestPlatform
beforeAll(async () => {
  platform = await startPlatform()
})
afterAll(() => platform.close())

/** Waits until a round of all jobs is over: stopping a worker does. */
const runRound = () => startWorker(platform.api, HOUR_MS).stop()

test('the blob of a deployment that was retired an hour ago is dead after one round of jobs', async () => {
  const { db } = platform.api
  const folder = await mkdtemp(join(tmpdir(), 'jobs-test-'))
  const bytes = randomBytes(100)
  const file = {
    sha256: createHash('sha256').update(bytes).digest(),
    bytes: bytes.length,
    source: join(folder, 'page'),
  }
  await writeFile(file.source, bytes)
  const { id } = await newDeployment(platform, await newOwner(platform), { status: 'ACTIVE' })
  await storeFiles(platform.api, [file], new AbortController().signal)
  await rm(folder, { recursive: true })
  const served = [{ ...file, path: 'index.html', contentType: 'text/html' }]
  await db.transaction((tx) => linkFiles(tx, id, { served }))
  const { blobId } = one(await db.select().from(artifacts).where(eq(artifacts.sha256, file.sha256)))
  const retired = { retiredAt: platform.api.now(), output: {} as never }
  await db.update(deployments).set(retired).where(eq(deployments.id, id))
  const stateOf = async () => one(await db.select().from(blobs).where(eq(blobs.id, blobId))).state
  await runRound()
  expect(await stateOf()).toBe('live')
  platform.clock.advance(HOUR_MS + 1)
  await runRound()
  expect(await stateOf()).toBe('dead')
})

test('no two areas have a job of one name', () => {
  const names = jobsAt(platform.api, platform.api.now).map(({ name }) => name)
  expect(names).toEqual([...new Set(names)])
})

test('the metrics name the jobs that dashboards and alerts know', async () => {
  await runRound()
  const failures = register.getSingleMetric('job_failures_total') as Metric<'job'>
  const { values } = await failures.get()
  expect(values.map(({ labels }) => `${labels.job}`).toSorted()).toEqual([
    'collect the bytes of what is gone',
    'collect the files of no deployment',
    'compress the files of deployments',
    'discard activities',
    'discard audit events',
    'discard expired AI videos',
    'discard idempotent requests',
    'discard invitations',
    'discard killed edges',
    'discard old deployments',
    'discard old trash',
    'discard the data of retired deployments',
    'discard the jobs of builds',
    'discard the jobs of crons',
    'discard the order of followed requests',
    'discard the pages of retired deployments',
    'discard the pins of expired sticky URLs',
    'discard the runs of crons',
    'discard the slots of killed edges',
    'discard the streams of killed processes',
    'discard the sums of requests',
    'discard the verdicts of unused patterns',
    'discard the windows of AI budgets',
    'discard what AI providers keep no more',
    'discard what builds kept',
    'end the cron runs of killed edges',
    'expire uploads',
    'keep image caches within their quotas',
    'keep the days of request logs',
    'keep the days of runtime logs',
    'keep the months of AI usage',
    'look after deployments',
    'look at AI videos',
    'merge the pieces of scattered objects',
    'rank the paths of request logs',
    'remove the files of retired deployments',
    'retire old deployments',
    'settle the AI calls of killed processes',
    'sum the bytes of organizations',
  ])
})
