// engines: postgres
import { newId } from '@platform/runtime/new-id'
import { sentStatements } from '@platform/testkit/sent-statements'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { eq, inArray, sql } from 'drizzle-orm'
import postgres from 'postgres'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { deploy, type Deployed, makeCurrent, visit } from '../../../../test/deploy.ts'
import { deploymentOf, environmentOf, newDeployment } from '../../../../test/deployments.ts'
import { exampleOf } from '../../../../test/example-of.ts'
import { operations } from '../../../../test/operations.ts'
import { newOwner, type Owner } from '../../../../test/scenario.ts'
import { createFunctionCredential, storeFunctionCredential } from '../../credentials/api-keys/function-credential.ts'
import { openArtifactCollector } from '../artifacts/collect-artifacts.ts'
import { removeFiles } from '../artifacts/remove-files.ts'
import { artifacts } from '../artifacts/table.ts'
import { createManualRun } from '../../edge/crons/runs.ts'
import { deploymentCrons } from './table.ts'
import { collectGarbage } from '../../storage/objects/maintenance/collect-garbage.ts'
import { verifyStorage } from '../../storage/objects/maintenance/verify-storage.ts'
import { discardDeployments } from './discard-deployments.ts'
import { retireDeployment } from './retirement.ts'
import { buildLogs, deploymentFunctions, deployments } from './table.ts'
import { failDeployment } from './transitions.ts'

const DAY_MS = 86_400_000

let platform: TestPlatform
beforeAll(async () => {
  platform = await startPlatform()
})
afterAll(() => platform.close())

/** What jobs take, some days later. */
const daysLater = (days: number) => {
  const { api } = platform
  return { db: api.db, blobs: api.blobs, logger: api.logger, now: () => new Date(api.now().getTime() + days * DAY_MS) }
}
const discardAfter = (days: number, keptDays = 365) => discardDeployments(daysLater(days), keptDays)
const isThere = async (id: string) => (await platform.api.db.$count(deployments, eq(deployments.id, id))) === 1

/** Retires a deployment now, and lets its files go. */
async function retire({ id }: Pick<Deployed, 'id'>): Promise<void> {
  expect(await retireDeployment(platform.api, id)).toBe(true)
  await removeFiles(daysLater(1))
}

/** Moves the creation of a deployment into the past: what counts is its end. */
const createLongAgo = ({ id }: Pick<Deployed, 'id'>) =>
  platform.api.db
    .update(deployments)
    .set({ createdAt: new Date(platform.api.now().getTime() - 1_000 * DAY_MS) })
    .where(eq(deployments.id, id))

const addLines = (deploymentId: string, count: number) =>
  platform.api.db.insert(buildLogs).values(
    Array.from({ length: count }, (_, n) => ({
      id: newId(),
      deploymentId,
      createdAt: new Date(platform.api.now().getTime() + n),
      type: 'INFO' as const,
      message: `line ${n}`,
    })),
  )

/** A deployment with files, a Function that an edge ran, a credential, a cron that ran, and a log. */
async function deployAll(owner: Owner): Promise<Deployed & { cronId: string }> {
  const { db, now } = platform.api
  const deployed = await deploy(platform, owner, {
    files: { 'index.html': `Hello of ${newId()}` },
    output: { crons: [{ path: '/job', schedule: '0 0 29 2 *' }] },
    isCurrent: false,
  })
  const { id } = deployed
  const functionId = newId()
  await db.insert(deploymentFunctions).values({
    id: functionId,
    deploymentId: id,
    path: 'api',
    kind: 'handler',
    handler: 'index.js',
    isWeb: false,
    hasHelpers: false,
    environment: {},
  })
  await db.execute(sql`insert into function_links (function_id, path, target) values (${functionId}, 'a', 'b')`)
  await db.execute(sql`insert into function_slots (function_id, process_id, slots, memory_bytes, seen_at)
    values (${functionId}, ${newId()}, 1, 1, ${now().toISOString()})`)
  await db.execute(sql`insert into sticky_pins (function_id, key_hash, edge_id, expires_at)
    values (${functionId}, 'x', ${newId()}, ${now().toISOString()})`)
  await db.execute(sql`insert into isr_totals (deployment_id) values (${id})`)
  await db.execute(sql`insert into image_caches (deployment_id, epoch) values (${id}, 1)`)
  const row = await deploymentOf(platform, id)
  const credential = await createFunctionCredential(platform.api, row)
  await db.transaction((tx) => storeFunctionCredential(tx, now(), credential))
  await addLines(id, 3)
  const [cron] = await db.select().from(deploymentCrons).where(eq(deploymentCrons.deploymentId, id))
  const cronId = cron?.id ?? ''
  await createManualRun(platform.api, cronId)
  return { ...deployed, cronId }
}

/** How many rows of each table name a deployment, its Functions or its crons; those without any are left out. */
async function rowsOf(id: string): Promise<Record<string, number>> {
  const { db } = platform.api
  const columns = await db.execute<{ table: string; column: string }>(sql`
    select c.relname as table, a.attname as column from pg_attribute a join pg_class c on c.oid = a.attrelid
    where a.attname in ('deployment_id', 'current_deployment_id', 'function_id', 'cron_id') and c.relkind in ('r', 'p')
      and not c.relispartition and c.relnamespace = 'public'::regnamespace`)
  const counts: Record<string, number> = {}
  for (const { table, column } of columns) {
    const [row] = await db.execute<{ n: number }>(sql`select count(*)::int as n from ${sql.identifier(table)}
      where ${sql.identifier(column)} in (select id from known_ids where deployment_id = ${id})`)
    if (row && row.n > 0) counts[table] = row.n
  }
  return counts
}

/** Remembers the ids of a deployment and of what is below it, for `rowsOf`. */
async function rememberIds(id: string): Promise<void> {
  const { db } = platform.api
  await db.execute(sql`create table if not exists known_ids (deployment_id uuid, id uuid)`)
  await db.execute(sql`insert into known_ids select ${id}::uuid, ${id}::uuid
    union all select ${id}::uuid, id from deployment_functions where deployment_id = ${id}
    union all select ${id}::uuid, id from deployment_crons where deployment_id = ${id}`)
}

test('a deployment that was retired 365 days ago is missing, and so is all that is below it (D125)', async () => {
  const owner = await newOwner(platform)
  const old = await deployAll(owner)
  const { token } = owner
  await createLongAgo(old)
  await retire(old)
  const ask = async (on: string, body?: unknown) => {
    const { status, body: answer } = await platform.call(token, on, body)
    return { status, error: (answer as { error?: string }).error }
  }
  await discardAfter(364.9)
  expect(await ask(`GET /deployments/${old.id}`)).toEqual({ status: 200, error: undefined })
  expect(await ask(`POST /deployments/${old.id}/promote`)).toMatchObject({ status: 409 })
  expect((await visit(platform, old.host)).status).toBe(410)

  await discardAfter(365.1)
  const below = operations.filter(({ path }) => path.startsWith('/deployments/{id}'))
  expect(below.length).toBeGreaterThan(15)
  for (const { method, path, operationId, requestBody } of below) {
    const content = requestBody?.content['application/json']
    const body = content && (content.example ?? exampleOf(content.schema, operationId))
    const on = `${method} ${path.replace('{id}', old.id).replace('{cronId}', old.cronId)}`
    expect({ on, ...(await ask(on, body)) }).toEqual({ on, status: 404, error: 'Deployment not found' })
  }
  expect((await visit(platform, old.host)).status).toBe(404)
})

test('a deployment that failed 365 days ago goes, and lists and their totals go without it', async () => {
  const owner = await newOwner(platform)
  const failed = await newDeployment(platform, owner, { status: 'QUEUED' })
  const kept = await newDeployment(platform, owner, { status: 'ACTIVE' })
  await createLongAgo(failed)
  const by = { kind: 'platform' } as const
  await platform.api.db.transaction((tx) =>
    failDeployment(tx, platform.api.now(), failed, 'No index.html', 'deployment.failed', by),
  )
  const page = async (query = '') => {
    const list = `GET /deployments?applicationId=${owner.applicationId}${query}`
    const { body } = await platform.call(owner.token, list)
    const { items, total } = body as { items: { id: string }[]; total: number }
    return { ids: items.map(({ id }) => id), total }
  }
  await discardAfter(364.9)
  expect(await page()).toEqual({ ids: [kept.id, failed.id], total: 2 })
  expect(await page('&status=FAILED')).toEqual({ ids: [failed.id], total: 1 })
  await discardAfter(365.1)
  expect(await page()).toEqual({ ids: [kept.id], total: 1 })
  expect(await page('&status=FAILED&environment=production')).toEqual({ ids: [], total: 0 })
  // What was recorded of it names it by id and label, and stays as long as all activities.
  const feed = await platform.call(owner.token, `GET /applications/${owner.applicationId}/activity`)
  expect(feed.status).toBe(200)
  expect(JSON.stringify(feed.body)).toContain(failed.id)
})

test('no table has a row of a deployment that was deleted, its bytes are collected, and its number is not given again', async () => {
  const owner = await newOwner(platform)
  const old = await deployAll(owner)
  await rememberIds(old.id)
  const before = await rowsOf(old.id)
  expect(Object.keys(before).toSorted()).toEqual(
    [
      'api_keys',
      'build_logs',
      'cron_runs',
      'deployment_crons',
      'deployment_files',
      'deployment_functions',
      'function_links',
      'function_slots',
      'hostnames',
      'image_caches',
      'isr_totals',
      'sticky_pins',
      'known_ids',
    ].toSorted(),
  )
  await retire(old)
  await discardAfter(366)
  expect(await rowsOf(old.id)).toEqual({ known_ids: before.known_ids })

  await openArtifactCollector()(daysLater(366))
  await collectGarbage(daysLater(366))
  await collectGarbage(daysLater(367))
  expect(await platform.api.db.$count(artifacts)).toBe(0)
  expect(await verifyStorage(platform.api)).toMatchObject({ unreferenced: 0 })
  const { seq } = await newDeployment(platform, owner, { status: 'PENDING' })
  expect(seq).toBe(old.seq + 1)
})

test('whatever serves, can be promoted, is under way or has its files is kept, however old', async () => {
  const owner = await newOwner(platform)
  const current = await newDeployment(platform, owner, { status: 'ACTIVE' })
  const former = await newDeployment(platform, owner, { status: 'ACTIVE' })
  const pending = await newDeployment(platform, owner, { status: 'PENDING' })
  const building = await newDeployment(platform, owner, { status: 'BUILDING' })
  const withFiles = await deploy(platform, owner, { files: { 'index.html': 'x' }, isCurrent: false })
  const retired = await newDeployment(platform, owner, { status: 'ACTIVE' })
  await makeCurrent(platform, current)
  for (const { id } of [withFiles, retired]) expect(await retireDeployment(platform.api, id)).toBe(true)

  await discardAfter(99_999, 0)
  expect(await isThere(retired.id)).toBe(true)
  await discardAfter(4_000)
  const kept = [current, former, pending, building, withFiles]
  expect(await Promise.all(kept.map(({ id }) => isThere(id)))).toEqual(kept.map(() => true))
  expect((await platform.call(owner.token, `GET /deployments/${current.id}`)).status).toBe(200)
  expect(await isThere(retired.id)).toBe(false)
  const promoted = await platform.call(owner.token, `POST /deployments/${former.id}/promote`)
  expect([promoted.status, (await environmentOf(platform, owner)).currentDeploymentId]).toEqual([200, former.id])

  await removeFiles(daysLater(1))
  await discardAfter(4_000)
  expect(await isThere(withFiles.id)).toBe(false)
})

test('a long log goes a thousand lines at a time, and its deployment with the last of them', async () => {
  const owner = await newOwner(platform)
  const { db } = platform.api
  const long = await newDeployment(platform, owner, { status: 'ACTIVE' })
  await addLines(long.id, 2_500)
  await retire(long)
  await db.execute(sql`create table line_batches (transaction xid8, lines int)`)
  await db.execute(sql`create function note_lines() returns trigger language plpgsql as $$ begin
    insert into line_batches select pg_current_xact_id(), count(*) from gone; return null; end $$`)
  await db.execute(sql`create trigger note after delete on build_logs referencing old table as gone
    for each statement execute function note_lines()`)
  await discardAfter(366)
  expect(await isThere(long.id)).toBe(false)
  const batches = await db.execute<{ lines: number }>(
    sql`select sum(lines)::int as lines from line_batches group by transaction having sum(lines) > 0 order by 1`,
  )
  expect(batches.map(({ lines }) => lines)).toEqual([500, 1_000, 1_000])
})

test('one of several workers deletes at a time, and a deployment that is locked waits for the next run', async () => {
  const owner = await newOwner(platform)
  const made: Deployed['id'][] = []
  for (let n = 0; n < 120; n++) made.push((await newDeployment(platform, owner, { status: 'FAILED' })).id)
  const [locked = ''] = made
  const left = () => platform.api.db.$count(deployments, inArray(deployments.id, made))
  const holder = postgres(platform.databaseUrl, { max: 1 })
  onTestFinished(() => holder.end({ timeout: 5 }))
  await holder.begin(async (held) => {
    await held`select 1 from deployments where id = ${locked} for no key update`
    await Promise.all([discardAfter(366), discardAfter(366), discardAfter(366)])
    await discardAfter(366)
    expect([await left(), await isThere(locked)]).toEqual([1, true])
  })
  expect((await platform.call(owner.token, `GET /deployments/${locked}`)).status).toBe(200)
  await discardAfter(366)
  expect(await left()).toBe(0)
})

test('an index leads to the deployments that are over', async () => {
  const sent = await sentStatements(() => discardAfter(366))
  const text = sent.find((each) => each.includes('skip locked')) ?? ''
  const plan = await platform.api.db.transaction(async (tx) => {
    await tx.execute(sql`set local enable_seqscan = off`)
    await tx.execute(sql`set local plan_cache_mode = force_generic_plan`)
    await tx.execute(sql.raw(`prepare deployments_over as ${text}`))
    const values = Array.from(new Set(text.match(/\$\d+/g)), () => 'null')
    return tx.execute(sql.raw(`explain execute deployments_over(${values.join(', ')})`))
  })
  expect(JSON.stringify(plan)).toContain('deployments_ended')
})
