// engines: postgres
import { holding } from '@platform/testkit/holding'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { and, eq, sql } from 'drizzle-orm'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { deploymentOf, environmentOf, newDeployment } from '../../../../test/deployments.ts'
import { newOwner } from '../../../../test/scenario.ts'
import { activities } from '../../tenancy/activity/table.ts'
import { type EnvironmentSlug, environments } from '../../tenancy/applications/table.ts'
import { openRetirement, retireDeployment } from './retirement.ts'
import { deployments } from './table.ts'

let platform: TestPlatform
beforeAll(async () => {
  platform = await startPlatform()
})
afterAll(() => platform.close())

const DAY_MS = 86_400_000
/** An application with deployments in one environment, with the given ages in days, oldest first. */
async function newDeployments(daysOld: readonly number[], environment: EnvironmentSlug = 'production') {
  const owner = await newOwner(platform)
  const ids: string[] = []
  for (const days of daysOld) {
    const { id } = await newDeployment(platform, owner, { status: 'ACTIVE', environment })
    ids.push(id)
    await platform.api.db
      .update(deployments)
      .set({ createdAt: new Date(platform.api.now().getTime() - days * DAY_MS - 1), sealedVariables: 'test.sealed' })
      .where(eq(deployments.id, id))
  }
  return { owner, ids }
}
const retired = async (ids: readonly string[]) => {
  const rows = await Promise.all(ids.map((id) => deploymentOf(platform, id)))
  return rows.flatMap(({ retiredAt }, n) => (retiredAt ? [n] : []))
}
const retire = () => openRetirement()(platform.api)
const makeCurrent = (id: string) =>
  platform.api.db
    .update(environments)
    .set({ currentDeploymentId: id })
    .where(sql`${environments.id} = (select environment_id from deployments where id = ${id})`)

test('the newest ten, what is served, what is pinned and what is young are kept (D83)', async () => {
  const { owner, ids } = await newDeployments([90, 80, 70, 60, 29, ...Array.from({ length: 10 }, () => 40)])
  const pinned = (until: number) => ({ pinnedUntil: new Date(platform.api.now().getTime() + until) })
  await makeCurrent(ids[0] ?? '')
  await platform.api.db
    .update(deployments)
    .set(pinned(60_000))
    .where(eq(deployments.id, ids[1] ?? ''))
  await platform.api.db
    .update(deployments)
    .set(pinned(-1))
    .where(eq(deployments.id, ids[2] ?? ''))
  await retire()
  expect(await retired(ids)).toEqual([2, 3])
  const gone = await deploymentOf(platform, ids[2] ?? '')
  expect(gone).toMatchObject({ status: 'ACTIVE', sealedVariables: null, filesRemovedAt: null })
  expect((await deploymentOf(platform, ids[0] ?? '')).sealedVariables).toBe('test.sealed')
  const noted = await platform.api.db
    .select()
    .from(activities)
    .where(and(eq(activities.applicationId, owner.applicationId), eq(activities.type, 'deployment.retired')))
  expect(noted.map(({ subject }) => subject.id)).toEqual([ids[2], ids[3]])
  await retire()
  expect(await retired(ids)).toEqual([2, 3])
})

test('previews are kept for 7 days, and failed deployments count for nothing', async () => {
  const { ids } = await newDeployments([8, 6, ...Array.from({ length: 10 }, () => 5)], 'preview')
  await retire()
  expect(await retired(ids)).toEqual([0])
  const few = await newDeployments([90, ...Array.from({ length: 10 }, () => 40)])
  await platform.api.db
    .update(deployments)
    .set({ status: 'FAILED' })
    .where(eq(deployments.id, few.ids[5] ?? ''))
  await retire()
  expect(await retired(few.ids)).toEqual([])
})

test.each(['promote', 'retire'])(
  'promoting and retiring at once, %s first, ends in one of them (D83)',
  async (first) => {
    const { owner, ids } = await newDeployments([90])
    const [id = ''] = ids
    const promote = async () => (await platform.call(owner.token, `POST /deployments/${id}/promote`)).status
    const retireIt = () => retireDeployment(platform.api, id)
    const outcomes = await holding<readonly (number | boolean)[]>(
      platform.databaseUrl,
      (held) => held`select 1 from deployments where id = ${id} for update`,
      first === 'promote' ? [promote, retireIt] : [retireIt, promote],
    )
    expect(outcomes).toEqual(first === 'promote' ? [200, false] : [true, 409])
    const isRetired = (await deploymentOf(platform, id)).retiredAt !== null
    const isCurrent = (await environmentOf(platform, owner)).currentDeploymentId === id
    expect([isRetired, isCurrent]).toEqual(first === 'promote' ? [false, true] : [true, false])
  },
)
