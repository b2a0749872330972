import { startPlatform, type TestEdge, type TestPlatform } from '@platform/testing/platform'
import { and, eq, gt } from 'drizzle-orm'
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import { giveHostname, visit } from '../../../../test/deploy.ts'
import { deploymentOf, logOf, newDeployment, untilEnded } from '../../../../test/deployments.ts'
import { buildOutput, handler } from '../../../../test/functions.ts'
import { newOwner, type Owner } from '../../../../test/scenario.ts'
import { functionIdOf } from '../../deploy/deployments/asset-id.ts'
import { functionSlots } from './table.ts'

let platform: TestPlatform
let second: TestEdge
beforeAll(async () => {
  platform = await startPlatform({ hasWorker: true, env: { DEFAULT_PLAN: 'pro' } })
  second = await platform.addEdge()
})
afterAll(() => platform.close())

/** Answers with its name and when its process started. `other` is a Function that trial starts skip. */
const site = (name: string, other = '') =>
  buildOutput({
    index: handler(`res.end('${name}')`),
    other: `const startedAt = Date.now()\n${other}\n${handler(`res.end(JSON.stringify({ name: '${name}', startedAt }))`)}`,
  })

async function deploy(ana: Owner, name: string, other?: string) {
  const { id } = await newDeployment(platform, ana, { archive: site(name, other) })
  const { failureReason } = await untilEnded(platform, id)
  expect(failureReason).toBeNull()
  return deploymentOf(platform, id)
}

async function other(address: { edgeUrl: string }, host: string): Promise<{ name: string; startedAt: number }> {
  return JSON.parse((await visit(address, host, '/other')).text) as { name: string; startedAt: number }
}

/** The same, after waiting until the edge has learned which deployment is current. */
async function otherOf(name: string, address: { edgeUrl: string }, host: string) {
  await expect.poll(async () => (await other(address, host)).name, { interval: 10 }).toBe(name)
  return other(address, host)
}

/** Waits until an edge has reported that a Function runs there. */
const untilKnown = (deploymentId: string, { api }: { api: TestPlatform['api'] }) =>
  expect
    .poll(
      () =>
        platform.api.db.$count(
          functionSlots,
          and(
            eq(functionSlots.functionId, functionIdOf(deploymentId, 'other')),
            eq(functionSlots.processId, api.membership.id),
            gt(functionSlots.slots, 0),
          ),
        ),
      { timeout: 60_000 },
    )
    .toBe(1)

/** Lets deployments and promotions wait for their edges for an hour, in place of 5 s and 2 s, so that the order of events decides. */
function waitForEdges() {
  const { warm } = platform.api.edgeWarmer
  const warming = vi.spyOn(platform.api.edgeWarmer, 'warm').mockImplementation((change) => warm(change, 3_600_000))
  onTestFinished(() => warming.mockRestore())
  return warming
}

test('a Function that runs is warm on its edge before a new deployment of it is current, and in a rollback', async () => {
  waitForEdges()
  const ana = await newOwner(platform)
  const host = await giveHostname(platform, ana.applicationId)
  const first = await deploy(ana, 'first')
  await other(second, host)
  await untilKnown(first.id, second)

  const next = await deploy(ana, 'next')
  const warm = await otherOf('next', second, host)
  expect(warm.startedAt).toBeLessThanOrEqual(next.activatedAt?.getTime() ?? 0)
  expect(await logOf(platform, next.id)).toMatch(/Its Functions run on \d edges? after \d+ ms/)
  // The first edge had none of these Functions, and was not asked.
  expect((await otherOf('next', platform, host)).startedAt).toBeGreaterThan(next.activatedAt?.getTime() ?? 0)

  const third = await platform.addEdge()
  await other(third, host)
  await untilKnown(next.id, third)
  expect((await platform.call(ana.token, `POST /deployments/${first.id}/promote`)).status).toBe(200)
  const promotedAt = Date.now()
  const back = await otherOf('first', third, host)
  expect(back.startedAt).toBeLessThanOrEqual(promotedAt)
})

test('a Function that cannot start delays nothing, and an edge that is gone is not waited for', async () => {
  const ana = await newOwner(platform)
  const host = await giveHostname(platform, ana.applicationId)
  const first = await deploy(ana, 'first')
  const third = await platform.addEdge()
  for (const at of [second, third]) await other(at, host)
  for (const at of [second, third]) await untilKnown(first.id, at)
  await third.stop()
  // If the deployment waited for an edge it would wait for an hour.
  const warming = waitForEdges()
  const broken = await deploy(ana, 'broken', `throw new Error('not today')`)
  expect(warming).toHaveBeenCalled()
  expect(broken.status).toBe('ACTIVE')
  expect(await logOf(platform, broken.id)).toMatch(/WARN On 1 edge its Functions start with their first request/)
  await expect.poll(async () => (await visit(second, host, '/')).text).toBe('broken')
  expect((await visit(second, host, '/other')).status).toBe(502)
})

test('one that does not say that it is ready is waited for, and the build log says so', async () => {
  const ana = await newOwner(platform)
  const host = await giveHostname(platform, ana.applicationId)
  const first = await deploy(ana, 'first')
  await other(second, host)
  await untilKnown(first.id, second)
  const slow = await deploy(ana, 'slow', 'await new Promise((resolve) => setTimeout(resolve, 7_000))')
  expect(await logOf(platform, slow.id)).toMatch(/WARN On 1 edge its Functions start with their first request/)
})
