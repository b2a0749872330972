// engines: postgres
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { freePort } from '@platform/testkit/free-port'
import { serviceEnvironment, startServiceProcess, untilStatus } from '@platform/testing/service-process'
import { inArray } from 'drizzle-orm'
import postgres from 'postgres'
import { expect, onTestFinished, test } from 'vitest'
import { composeApi as compose } from '@platform/testing/api'
import { loadConfig } from '../src/config.ts'
import type { UserActor } from '../src/http/actor.ts'
import { createApplication } from '../src/areas/tenancy/applications/applications.ts'
import { SLOTS } from '../src/areas/deploy/builds/build-worker.ts'
import { deployments } from '../src/areas/deploy/deployments/table.ts'
import { createOrganization } from '../src/areas/tenancy/organizations/organizations.ts'
import { setQuota } from '../src/areas/tenancy/products/quotas.ts'
import { deploymentOf, environmentOf, logOf, newDeployment, until, untilEnded } from './deployments.ts'

const main = new URL('../src/main.ts', import.meta.url)

/** Workers as processes of their own, an application to deploy, and a trap for two workers on one deployment. */
async function newWorkers() {
  const folder = await mkdtemp(join(tmpdir(), 'worker-crash-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const env = await serviceEnvironment('api', {
    IDP_URL: 'http://localhost:1',
    EDGE_PORT: String(await freePort()),
    OBJECTS_URL: pathToFileURL(join(folder, 'objects')).href,
    TMPDIR: folder,
    STOP_NOTICE_MS: '1',
  })
  const { deps, close } = await compose(loadConfig(env))
  onTestFinished(close)
  const by: UserActor = { kind: 'user', userId: 'u', clientId: 'c', scopes: new Set(), authenticatedAt: undefined }
  const organization = await createOrganization(deps, by, { name: 'Crash' })
  await setQuota(deps, organization.id, 'concurrent_builds', 20)
  const application = await createApplication(deps, organization, { name: 'Crash' })
  const sql = postgres(env.DATABASE_URL ?? '', { max: 3, onnotice: () => {} })
  onTestFinished(() => sql.end({ timeout: 1 }))
  await sql`create table claimed_twice (id uuid, attempt int)`
  await sql.unsafe(`
    create function note_double_claim() returns trigger language plpgsql as $$
    begin
      insert into claimed_twice values (old.id, new.attempt);
      return null;
    end $$;
    create trigger note_double_claim after update on deployments for each row
      when (new.attempt > old.attempt and old.status <> 'QUEUED' and old.lease_until > now())
      execute function note_double_claim()`)
  const platform = { api: deps }
  const owner = { organizationId: organization.id, applicationId: application.id }
  return {
    platform,
    owner,
    sql,
    async start() {
      const health = await freePort()
      const process = startServiceProcess(main, { ...env, HEALTH_PORT: String(health) }, 'worker')
      return { ...process, readyUrl: `http://localhost:${health}/ready` }
    },
    deploy: (files = 20) =>
      newDeployment(platform, owner, {
        archive: Array.from({ length: files }, (_, n) => ({
          name: `${n}.html`,
          content: `<p>${n} ${Math.random()}</p>`,
        })),
      }),
    foldersInUse: async () => (await readdir(folder)).filter((name) => name.startsWith('platform-build-')),
    claimedTwice: () => sql`select * from claimed_twice`,
    /** As if half a minute had passed since the worker was heard of. */
    lapse: (ids: readonly string[]) =>
      deps.db
        .update(deployments)
        .set({ leaseUntil: new Date(Date.now() - 1), updatedAt: new Date(Date.now() - 60_000) })
        .where(inArray(deployments.id, [...ids])),
  }
}
type Workers = Awaited<ReturnType<typeof newWorkers>>

/**
 * Runs `work` while a worker waits for what `lock` takes, in another job than the sum of stored bytes. Jobs that read the same tables
 * may wait for it before the deployment does: `isThere` says whether the deployment has come so far.
 */
async function whileWaiting(
  workers: Workers,
  lock: string,
  isThere: () => Promise<boolean>,
  work: () => Promise<unknown>,
): Promise<void> {
  const { sql } = workers
  await sql.begin(async (tx) => {
    await tx.unsafe(lock)
    const [self] = await tx<{ pid: number }[]>`select pg_backend_pid() as pid`
    for (const deadline = Date.now() + 120_000; ; await sleep(10)) {
      const waiting = await sql`select 1 from pg_stat_activity
        where ${self?.pid ?? 0} = any(pg_blocking_pids(pid)) and application_name like 'platform-%'
          and query not like '%insert into "stored_bytes"%'`
      if (waiting.length > 0 && (await isThere())) break
      if (Date.now() > deadline) throw new Error(`No worker came to wait for ${lock}`)
    }
    await work()
  })
}

test.each([
  ['QUEUED', (id: string) => `select 1 from deployments where id = '${id}' for update`],
  ['STARTING', () => 'lock table upload_blobs in access exclusive mode'],
  ['BUILDING', () => 'lock table artifacts in access exclusive mode'],
  [
    'PROVISIONING',
    (_: string, environmentId: string) => `select 1 from environments where id = '${environmentId}' for update`,
  ],
] as const)('a worker killed in %s is followed by another, which ends the deployment', async (status, lock) => {
  const workers = await newWorkers()
  const { platform } = workers
  const { id, environmentId } = await workers.deploy()
  const first = await workers.start()
  const isThere = async () => (await deploymentOf(platform, id)).status === status
  await whileWaiting(workers, lock(id, environmentId), isThere, async () => {
    first.child.kill('SIGKILL')
    await first.ended
  })
  const left = await until(platform, id, (deployment) => deployment.status === status)
  expect(left.attempt).toBe(status === 'QUEUED' ? 0 : 1)
  await workers.lapse([id])
  await workers.start()
  const active = await untilEnded(platform, id)
  const wasHeld = status !== 'QUEUED'
  expect(active).toMatchObject({ status: 'ACTIVE', attempt: wasHeld ? 2 : 1, interruptions: wasHeld ? 1 : 0 })
  expect((await logOf(platform, id)).split('was interrupted; another begins again')).toHaveLength(wasHeld ? 2 : 1)
  expect(await environmentOf(platform, workers.owner)).toMatchObject({ currentDeploymentId: id })
  expect(await workers.claimedTwice()).toEqual([])
})

test('a worker that is told to stop gives its deployment to another, which is no interruption', async () => {
  const workers = await newWorkers()
  const { platform } = workers
  const { id } = await workers.deploy(500)
  const first = await workers.start()
  const isBuilding = async () => (await deploymentOf(platform, id)).status === 'BUILDING'
  await whileWaiting(workers, 'lock table artifacts in access exclusive mode', isBuilding, async () => {
    first.child.kill('SIGTERM')
    await untilStatus(first.readyUrl, 503)
  })
  expect((await first.ended).code).toBe(0)
  expect(await workers.foldersInUse()).toEqual([])
  const options = await deploymentOf(platform, id)
  expect(options).toMatchObject({ leaseUntil: null, interruptions: 0 })
  expect(options.status).not.toBe('ACTIVE')
  await workers.start()
  expect(await untilEnded(platform, id)).toMatchObject({ status: 'ACTIVE', attempt: 2, interruptions: 0 })
  expect(await logOf(platform, id)).toContain('INFO Another worker goes on with it from the start')
  expect(await workers.claimedTwice()).toEqual([])
})

test('two workers share 20 deployments, one is killed, and every deployment is ended once', async () => {
  const workers = await newWorkers()
  const { platform } = workers
  const [one, two] = await Promise.all([workers.start(), workers.start()])
  const made = await Promise.all(Array.from({ length: 20 }, () => workers.deploy(60)))
  const ids = made.map(({ id }) => id)
  const rows = () => platform.api.db.select().from(deployments).where(inArray(deployments.id, ids))
  for (;;) {
    const active = (await rows()).filter(({ status }) => status === 'ACTIVE')
    if (active.length >= 5) break
    await sleep(5)
  }
  one.child.kill('SIGKILL')
  await one.ended
  // The other ends all but what the killed one had: nothing moves any more.
  const isLeft = ({ status }: { status: string }) => status !== 'ACTIVE' && status !== 'FAILED'
  let lost: Awaited<ReturnType<typeof rows>> = []
  let movedAt = Date.now()
  for (const deadline = Date.now() + 120_000; Date.now() < deadline; await sleep(100)) {
    const left = (await rows()).filter(isLeft)
    if (left.length !== lost.length) movedAt = Date.now()
    lost = left
    if (lost.every(({ status }) => status !== 'QUEUED') && Date.now() - movedAt >= 2_000) break
  }
  expect(lost.length).toBeLessThanOrEqual(SLOTS)
  const lostIds = lost.map(({ id }) => id)
  const [last] = lost
  if (last) {
    await workers.lapse(lostIds)
    for (const id of lostIds) await untilEnded(platform, id)
  }
  const ended = await rows()
  expect(ended.map(({ status }) => status)).toEqual(ids.map(() => 'ACTIVE'))
  for (const { id, attempt } of ended)
    expect([id, attempt]).toEqual([id, lostIds.includes(id) ? expect.any(Number) : 1])
  expect(await workers.claimedTwice()).toEqual([])
  const newest = made.toSorted((a, b) => b.seq - a.seq)[0]
  expect(await environmentOf(platform, workers.owner)).toMatchObject({ currentDeploymentId: newest?.id })
  expect(two.child.exitCode).toBeNull()
})
