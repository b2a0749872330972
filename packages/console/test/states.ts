import { randomUUID } from 'node:crypto'
import { newId } from '@platform/runtime/new-id'
import { everyScope, type Person, type TestPlatform } from '@platform/testing/platform'
import { eq, sql } from 'drizzle-orm'
import { recordActivity } from '../../../services/api/src/areas/tenancy/activity/record.ts'
import { activityTypes } from '../../../services/api/src/areas/tenancy/activity/table.ts'
import { applications, environments } from '../../../services/api/src/areas/tenancy/applications/table.ts'
import { cronRuns } from '../../../services/api/src/areas/edge/crons/table.ts'
import { cronIdOf, slotOf } from '../../../services/api/src/areas/deploy/deployments/crons.ts'
import {
  type DeploymentStatus,
  buildLogs,
  deploymentFunctions,
  deployments,
} from '../../../services/api/src/areas/deploy/deployments/table.ts'
import { functionSlots } from '../../../services/api/src/areas/edge/functions/table.ts'
import { imageCaches } from '../../../services/api/src/areas/edge/images/table.ts'
import { openRequestLog } from '../../../services/api/src/areas/observe/request-logs/write.ts'
import { deploy, giveHostname } from '../../../services/api/test/deploy.ts'
import { environmentOf } from '../../../services/api/test/deployments.ts'
import { type Owner, servedRequest, unique } from '../../../services/api/test/scenario.ts'
import { addKeys } from './states-keys.ts'
import { type LogHome, newLogHome } from './states-logs.ts'
import { addVariables } from './states-variables.ts'

type Row = typeof deployments.$inferInsert

const HOUR_MS = 3_600_000

/** In the log of the full deployment. */
export const LINES = 100_000

/** An application of somebody, and the addresses of its pages. */
export interface Home {
  owner: Owner
  person: Person
  organization: string
  path: string
}

/** Somebody's organization with an application; addresses are made from their names. */
export async function newHome(
  platform: TestPlatform,
  { organization = `Org ${unique()}`, application = 'Shop' }: { organization?: string; application?: string } = {},
): Promise<Home> {
  const person = await platform.person()
  const token = await person.token(everyScope)
  const create = async (path: string, body: object): Promise<{ id: string; slug: string }> => {
    const answer = await platform.call(token, `POST ${path}`, body)
    if (answer.status !== 201) throw new Error(answer.text)
    return answer.body
  }
  const made = await create('/organizations', { name: organization })
  const app = await create('/applications', { name: application, organizationId: made.id })
  const owner = { person, token, organizationId: made.id, applicationId: app.id }
  return { owner, person, organization: `/${made.slug}`, path: `/${made.slug}/${app.slug}` }
}

/** A deployment as a build left it, changed as the test wants it. */
export async function deployed(
  platform: TestPlatform,
  { owner }: Pick<Home, 'owner'>,
  { status = 'ACTIVE', isCurrent, ...row }: Partial<Row> & { isCurrent?: boolean } = {},
  more: Pick<Parameters<typeof deploy>[2], 'files' | 'environment' | 'output'> = {},
) {
  const made = await deploy(platform, owner, { ...more, status, ...(isCurrent !== undefined && { isCurrent }) })
  if (Object.keys(row).length > 0) await platform.api.db.update(deployments).set(row).where(eq(deployments.id, made.id))
  return made
}

export const git = (message: string, more: Partial<NonNullable<Row['git']>> = {}): NonNullable<Row['git']> => ({
  commit: '8f3b6f0c2d1e4a59b7c8d9e0f1a2b3c4d5e6f708',
  branch: 'main',
  message,
  isDirty: null,
  pullRequest: null,
  repository: null,
  ...more,
})

const variable = (
  key: string,
  value: string,
  source: 'organization' | 'application' | 'environment' = 'application',
) => ({
  key,
  source,
  digest: value,
})

/** What no operation does yet. */
export const removeApplication = ({ api }: TestPlatform, id: string) =>
  api.db.delete(applications).where(eq(applications.id, id))

/** As many as a busy team has in an organization, of which a list shows 100 at a time. */
export const addApplications = ({ api }: TestPlatform, { organizationId }: Owner, count: number) =>
  api.db.execute(sql`
    with made as (
      insert into applications (id, organization_id, name, slug, created_at, updated_at)
      select ('0190aaaa-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, ${organizationId}, 'Service ' || n, 'service-' || n,
        now(), now()
      from generate_series(1, ${count}) n returning id)
    insert into environments (id, application_id, slug, name)
    select gen_random_uuid(), made.id, slug, slug from made, unnest(array['production', 'preview']) slug`)

/** Deployments of the past, before the first of a test. Counts are kept by triggers. */
async function addDeployments(platform: TestPlatform, { owner }: Home, count: number): Promise<void> {
  const { api } = platform
  const { organizationId, applicationId } = owner
  const { id: environmentId } = await environmentOf(platform, owner)
  await api.db.update(environments).set({ lastSeq: count }).where(eq(environments.id, environmentId))
  await api.db.execute(sql`
    insert into deployments (id, organization_id, application_id, environment_id, seq, status, label, created_by, failure_reason,
      build_started_at, build_ended_at, activated_at, retired_at, created_at, updated_at)
    select ('0190bbbb-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, ${organizationId}, ${applicationId}, ${environmentId}, n,
      case when n % 7 = 0 then 'FAILED' else 'ACTIVE' end, 'shop-' || lpad(to_hex(n), 8, '0'), '{"type":"user","id":"x"}',
      case when n % 7 = 0 then 'The build ended with code 1' end,
      at, at + n % 50 * interval '1 second', case when n % 7 <> 0 then at end, case when n % 7 <> 0 then at end, at, at
    from (select n, '2024-06-30T12:00Z'::timestamptz + n * interval '1 minute' as at from generate_series(1, ${count}) n) a`)
}

/** Lines of a build log, of which each hundredth is an error. */
const addLines = ({ api }: TestPlatform, deploymentId: string, count: number) =>
  api.db.execute(sql`
    insert into build_logs (deployment_id, created_at, id, type, message)
    select ${deploymentId}::uuid, at, ('0190cccc-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid,
      case when n % 100 = 7 then 'ERROR' when n % 100 = 4 then 'WARN' else 'INFO' end,
      case when n % 100 = 7 then 'src/cart.ts(12,7): error TS2322: the price is undefined'
        when n % 100 = 5 then E'\\x1b[32m✓\\x1b[0m built in \\x1b[1m4.2 s\\x1b[0m' else 'transforming module ' || n end
    from (select n, '2024-06-30T12:00Z'::timestamptz + n * interval '1 millisecond' as at from generate_series(1, ${count}) n) a`)

/** Lines of a build log, in this order. */
export async function addMessages(
  { api }: TestPlatform,
  deploymentId: string,
  messages: readonly string[],
): Promise<void> {
  const rows = messages.map((message, n) => ({
    deploymentId,
    id: newId(),
    createdAt: new Date(Date.UTC(2024, 5, 30, 12) + n),
    type: 'INFO' as const,
    message,
  }))
  await api.db.insert(buildLogs).values(rows)
}

const crons = [
  { path: '/api/nightly-report', schedule: '0 3 * * *' },
  { path: '/api/refresh-prices?currency=EUR', schedule: '*/5 * * * *' },
  { path: '/api/never-run-yet', schedule: '0 0 1 1 *' },
  { path: '/api/running', schedule: '0 * * * *' },
]

async function addCronRuns({ api }: TestPlatform, environmentId: string, deploymentId: string): Promise<void> {
  const at = new Date(Date.now() - 2 * HOUR_MS)
  const ended = { startedAt: at, completedAt: new Date(at.getTime() + 1_300) } as const
  const runs = [
    { ...ended, status: 200, outcome: 'succeeded' as const },
    { ...ended, status: 500, outcome: 'failed' as const, error: 'The answer had the status 500' },
    undefined,
    { startedAt: at },
  ]
  for (const [n, run] of runs.entries()) {
    const cron = crons[n]
    if (!run || !cron) continue
    const row = { id: newId(), cronId: cronIdOf(deploymentId, cron), slot: slotOf(environmentId, cron) }
    await api.db.insert(cronRuns).values({ ...row, trigger: 'schedule', dueAt: at, leaseUntil: at, ...run })
  }
}

async function addFunctions({ api }: TestPlatform, deploymentId: string): Promise<void> {
  const functions = [
    { path: 'api/checkout', kind: 'handler', coldStarts: 12, requests: 48_210 },
    { path: 'api/nightly-report', kind: 'handler', coldStarts: 0, requests: 0 },
    { path: 'middleware', kind: 'edge', coldStarts: 3, requests: 1_204_552 },
    { path: 'server/index.js', kind: 'server', coldStarts: 1, requests: 981 },
    { path: 'workers/queue.js', kind: 'worker', coldStarts: 2, requests: 7 },
  ] as const
  const rows = functions.map((each) => ({
    ...each,
    id: newId(),
    deploymentId,
    handler: 'index.js',
    isWeb: false,
    hasHelpers: false,
    environment: {},
  }))
  await api.db.insert(deploymentFunctions).values(rows)
  // Reports of an edge count for 15 s: this one is seen for as long as the test runs.
  const seenAt = new Date(Date.now() + HOUR_MS)
  const running = rows.filter(({ requests }) => requests > 100)
  await api.db.insert(functionSlots).values(
    running.map(({ id }, n) => ({
      functionId: id,
      processId: randomUUID(),
      slots: n + 1,
      memoryBytes: (n + 1) * 61e6,
      seenAt,
    })),
  )
}

export const addFunctionAt = ({ api }: TestPlatform, deploymentId: string, path: string) =>
  api.db.insert(deploymentFunctions).values({
    id: newId(),
    deploymentId,
    path,
    kind: 'handler',
    handler: 'x',
    isWeb: false,
    hasHelpers: false,
    environment: {},
  })

export async function addImages(
  { api }: TestPlatform,
  { owner }: Pick<Home, 'owner'>,
  deploymentId: string,
): Promise<void> {
  await api.db.insert(imageCaches).values({ deploymentId, epoch: 0 })
  await api.db.execute(sql`
    with stored as (
      insert into blobs (id, state, length, crc32, content, created_at) values (gen_random_uuid(), 'live', 1, 0, 'x', now()) returning id)
    insert into image_variants (deployment_id, key, organization_id, source, blob_id, bytes, content_type, last_used_at)
    select ${deploymentId}::uuid, sha256(n::text::bytea), ${owner.organizationId}, '/img/product-' || n / 4 || '.jpg', stored.id,
      n * 13511, 'image/webp', now() - n * interval '1 hour'
    from stored, generate_series(1, 40) n`)
}

/** Requests in the last 21 hours, the same whenever a test runs. */
async function addRequests({ api }: TestPlatform, { owner: { applicationId } }: Home): Promise<void> {
  const log = openRequestLog(api)
  const now = api.now().getTime()
  for (let hour = 0; hour < 21; hour++)
    for (let n = 0; n < 3 + ((hour * 7) % 11); n++) {
      const startedAt = new Date(now - hour * HOUR_MS)
      const completedAt = new Date(startedAt.getTime() + 8 + n * n * 3)
      log.write(
        servedRequest({ applicationId, startedAt, completedAt, status: n === 9 ? 502 : 200, bytesSent: 52_000 }),
      )
    }
  await log.close()
}

async function addActivities({ api }: TestPlatform, { owner: { applicationId, person } }: Home): Promise<void> {
  const actors = [{ kind: 'platform' }, { kind: 'user', userId: person.userId }] as const
  for (const [n, type] of activityTypes.entries())
    await api.db.transaction((tx) =>
      recordActivity(tx, new Date(api.now().getTime() - n * 60_000), {
        applicationId,
        type,
        by: (type.startsWith('deployment.') ? actors[n % 2] : actors[1]) as never,
        subject: { type: 'test', id: newId(), key: 'STRIPE_KEY', label: 'shop-3f9a', name: 'CI of the shop' },
      }),
    )
}

/** An application in which every list and every figure has something, and what is long is as long as it gets. */
export interface Full extends Home {
  /** What production serves, with each of its parts. */
  live: string
  building: string
  failed: string
  /** What production served before that. */
  before: string
  logs: LogHome
}

export async function newFull(platform: TestPlatform): Promise<Full> {
  const { api } = platform
  const home = await newHome(platform, { organization: 'Acme Trading', application: 'Shop' })
  const { owner } = home
  await addApplications(platform, owner, 250)
  await addDeployments(platform, home, 9_991)
  const before = await deployed(platform, home, {
    git: git('Begin'),
    sizeBytes: 1_900_000,
    variables: [variable('API_URL', 'a'), variable('STRIPE_KEY', 'b'), variable('LEGACY_MODE', 'c', 'environment')],
  })
  const { environmentId, id: live } = await deployed(
    platform,
    home,
    {
      git: git('Show the total before paying\n\nSome customers were surprised.', {
        branch: 'feature/checkout',
        isDirty: true,
        pullRequest: 42,
      }),
      sizeBytes: 2_412_000,
      buildStartedAt: new Date(0),
      buildEndedAt: new Date(200_000),
      variables: [variable('API_URL', 'a'), variable('STRIPE_KEY', 'd'), variable('SENTRY_DSN', 'e', 'organization')],
    },
    { files: { 'index.html': '<!doctype html><title>Shop</title>' }, output: { crons } },
  )
  await api.db.execute(sql`
    insert into deployment_files (deployment_id, path, sha256, bytes, content_type)
    select deployment_id, 'assets/images/products/product-' || lpad(n::text, 3, '0') || '.jpg', sha256, n * 1234, 'image/jpeg'
    from deployment_files, generate_series(1, 199) n where deployment_id = ${live}`)
  await addFunctions(platform, live)
  await addCronRuns(platform, environmentId, live)
  await addImages(platform, home, live)
  await addLines(platform, live, LINES)
  await giveHostname(platform, owner.applicationId)
  const made = new Map<DeploymentStatus, string>()
  for (const status of ['PENDING', 'QUEUED', 'STARTING', 'BUILDING', 'PROVISIONING', 'FAILED'] as const) {
    const failureReason = status === 'FAILED' ? 'The build ended with code 1: the price of tea is undefined' : null
    const row = { git: git(`Try ${status.toLowerCase()}`, { branch: null }), failureReason }
    made.set(status, (await deployed(platform, home, { status, ...row })).id)
  }
  await deployed(platform, home, { status: 'FAILED', failureReason: 'Cancelled', git: git('Try another way') })
  await addVariables(platform, home.owner)
  await addRequests(platform, home)
  await addActivities(platform, home)
  await addKeys(platform, home)
  return {
    ...home,
    live,
    building: made.get('BUILDING') ?? '',
    failed: made.get('FAILED') ?? '',
    before: before.id,
    logs: await newLogHome(platform, home.organization),
  }
}
