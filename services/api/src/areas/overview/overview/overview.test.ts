import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { sentStatements } from '@platform/testkit/sent-statements'
import { sql } from 'drizzle-orm'
import postgres from 'postgres'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { deploy, giveHostname } from '../../../../test/deploy.ts'
import { newOwner, type Owner, servedRequest } from '../../../../test/scenario.ts'
import { openRequestLog } from '../../observe/request-logs/write.ts'

let platform: TestPlatform
beforeAll(async () => {
  platform = await startPlatform()
  // In the middle of an hour, so that none ends during a test.
  platform.clock.advance(1.5 * HOUR - (platform.clock.now().getTime() % HOUR))
})
afterAll(() => platform.close())

const HOUR = 3_600_000
/** The start of the hour that began so many hours before the present one. */
const hourStart = (hoursAgo: number) =>
  new Date((Math.floor(platform.clock.now().getTime() / HOUR) - hoursAgo) * HOUR).toISOString()

interface Hour {
  start: string
  requests: number
  errors: number
}

const overview = (owner: Pick<Owner, 'token' | 'organizationId'>, query: Record<string, string> = {}) =>
  platform.call(
    owner.token,
    `GET /organizations/${owner.organizationId}/overview?${new URLSearchParams(query).toString()}`,
  )

/** Adds applications with their environments, more than a plan allows to create. */
const addApplications = ({ organizationId }: Owner, count: number) =>
  platform.api.db.execute(sql`
    with made as (
      insert into applications (id, organization_id, name, slug, created_at, updated_at)
      select gen_random_uuid(), ${organizationId}, 'App ' || n, 'app-' || n, now(), now() from generate_series(1, ${count}) n
      returning id)
    insert into environments (id, application_id, slug, name)
    select gen_random_uuid(), made.id, slug, slug from made, unnest(array['production', 'preview']) slug`)

/** The statements of one request. The edge of the platform renews its lease every two seconds, whoever asks. */
const statementsOf = async (run: () => Promise<unknown>) =>
  (await sentStatements(run)).filter((text) => !text.startsWith('insert into "edges"'))

test('an application without deployments has no address, and 24 hours without requests, oldest first', async () => {
  const owner = await newOwner(platform)
  const { status, body } = await overview(owner)
  expect(status).toBe(200)
  expect(body).toEqual({
    items: [
      {
        applicationId: owner.applicationId,
        name: expect.stringMatching(/^App /) as string,
        slug: expect.stringMatching(/^app-/) as string,
        url: null,
        current: null,
        lastDeployment: null,
        hours: Array.from({ length: 24 }, (_, n) => ({ start: hourStart(23 - n), requests: 0, errors: 0 })),
      },
    ],
    total: 1,
    nextCursor: null,
  })
})

test('an overview tells what production serves and the newest deployment of any environment', async () => {
  const owner = await newOwner(platform)
  const served = await deploy(platform, owner, {})
  await deploy(platform, owner, { status: 'FAILED' })
  const preview = await deploy(platform, owner, { environment: 'preview', status: 'BUILDING' })
  const state = async () => (await overview(owner)).body.items[0] as Record<string, unknown>
  expect(await state()).toMatchObject({
    url: `http://${served.host}`,
    current: { deploymentId: served.id, status: 'ACTIVE', createdAt: expect.stringMatching(/Z$/) as string },
    lastDeployment: {
      deploymentId: preview.id,
      environment: 'preview',
      status: 'BUILDING',
      createdAt: expect.stringMatching(/Z$/) as string,
    },
  })
  await giveHostname(platform, owner.applicationId, 'BRANCH')
  expect((await state()).url).toBe(`http://${served.host}`)
  const host = await giveHostname(platform, owner.applicationId)
  expect((await state()).url).toBe(`http://${host}`)
})

test('each of the last 24 hours tells its requests, and as errors those answered with 5xx', async () => {
  const owner = await newOwner(platform)
  const log = openRequestLog(platform.api)
  const { applicationId } = owner
  for (const [hoursAgo, status] of [
    [24, 500],
    [23, 200],
    [23, 404],
    [23, 503],
    [2, 200],
    [2, 500],
    [2, 599],
    [0, 200],
  ] as const)
    log.write(servedRequest({ applicationId, status, startedAt: new Date(Date.parse(hourStart(hoursAgo)) + 1_000) }))
  await log.close()
  const hours = (await overview(owner)).body.items[0].hours as Hour[]
  expect(hours.filter(({ requests }) => requests > 0)).toEqual([
    { start: hourStart(23), requests: 3, errors: 1 },
    { start: hourStart(2), requests: 3, errors: 2 },
    { start: hourStart(0), requests: 1, errors: 0 },
  ])
})

test('251 applications are paged, each once and newest first', async () => {
  const owner = await newOwner(platform)
  await addApplications(owner, 250)
  const seen: string[] = []
  const lengths: number[] = []
  let cursor: string | null | undefined
  do {
    const { body } = await overview(owner, { limit: '100', ...(cursor && { cursor }) })
    expect(body.total).toBe(251)
    const ids = (body.items as { applicationId: string }[]).map(({ applicationId }) => applicationId)
    lengths.push(ids.length)
    seen.push(...ids)
    cursor = body.nextCursor as string | null
  } while (cursor !== null)
  expect(lengths).toEqual([100, 100, 51])
  expect(new Set(seen).size).toBe(251)
  expect(seen).toEqual(seen.toSorted().toReversed())
})

test('an overview takes as many statements for 251 applications as for one, and each finds its rows by an index', async () => {
  const owner = await newOwner(platform)
  const ofOne = await statementsOf(() => overview(owner))
  await addApplications(owner, 250)
  const ofMany = await statementsOf(() => overview(owner, { limit: '100' }))
  // Whether its caller reaches the organization, the applications with their state, and the hours.
  expect([ofOne, ofMany].map((texts) => texts.length)).toEqual([3, 3])
  const connection = postgres(platform.databaseUrl, { max: 1 })
  onTestFinished(() => connection.end())
  // Tables of a few rows would otherwise be read whole.
  await connection`set enable_seqscan = off`
  await connection`set plan_cache_mode = force_generic_plan`
  for (const [n, text] of [...ofOne, ...ofMany].entries()) {
    await connection.unsafe(`prepare asked_${n} as ${text}`)
    const values = [...new Set(text.match(/\$\d+/g))].map(() => 'null').join(', ')
    const lines = await connection.unsafe<{ 'QUERY PLAN': string }[]>(`explain execute asked_${n} (${values})`)
    const plan = lines.map((line) => line['QUERY PLAN']).join('\n')
    expect(plan).toMatch(/Index (Only )?Scan/)
    expect(plan).not.toContain('Seq Scan')
  }
})

test('a cursor of another organization or another list is a 400, and a limit above 100 a 422', async () => {
  const [ana, ben] = [await newOwner(platform), await newOwner(platform)]
  await addApplications(ana, 1)
  const { nextCursor } = (await overview(ana, { limit: '1' })).body as { nextCursor: string }
  expect((await overview(ana, { limit: '1', cursor: nextCursor })).status).toBe(200)
  const refused = await overview(ben, { cursor: nextCursor })
  expect([refused.status, refused.body.error]).toEqual([400, 'The cursor does not belong to this list'])
  const activity = await platform.call(
    ana.token,
    `GET /applications/${ana.applicationId}/activity?cursor=${encodeURIComponent(nextCursor)}`,
  )
  expect(activity.status).toBe(400)
  expect((await overview(ana, { limit: '101' })).status).toBe(422)
})
