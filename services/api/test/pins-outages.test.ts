import { startCable } from '@platform/testkit/cable'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { newOwner, type Owner } from './scenario.ts'
import { deployStickySite } from './sticky-site.ts'

let platform: TestPlatform
let ana: Owner
beforeAll(async () => {
  platform = await startPlatform({ hasWorker: true, env: { DEFAULT_PLAN: 'pro' } })
  ana = await newOwner(platform)
})
afterAll(() => platform.close())

/** An edge that reaches its database by a cable, and a sticky URL whose pin it owns. */
async function ownerByCable() {
  const cable = await startCable(new URL(platform.databaseUrl))
  const edge = await platform.addEdge({ DATABASE_URL: cable.url })
  onTestFinished(async () => {
    cable.wake()
    await cable.mend().catch(() => {})
    await edge.stop()
    cable.close()
  })
  const site = await deployStickySite(platform, ana)
  const path = await site.mint({ key: 'kept' })
  const { instance } = await site.who(path, edge)
  return { cable, edge, site, path, instance }
}

const lapsed = { timeout: 12_000, interval: 100 }

describe.each(['cut', 'hang'] as const)('a database whose connections %s', (fault) => {
  test('its owner goes on to answer for a pin, after its lease too', async () => {
    const { cable, edge, site, path, instance } = await ownerByCable()
    cable[fault]()
    expect((await site.who(path, edge)).instance).toBe(instance)
    await expect.poll(() => edge.api.membership.term(), lapsed).toBeUndefined()
    const answer = site.who(path, edge)
    if (fault === 'hang') {
      // The database hangs until the end of this test; a query of the edge's pool waits for it until it gives up.
      const query = edge.api.db.execute('select 1').catch(() => 'the query gave up')
      await expect(Promise.race([answer, query])).resolves.toMatchObject({ instance })
    }
    expect(await answer).toMatchObject({ instance, isRestarted: false })
    expect((await site.who(path, edge)).instance).toBe(instance)
  })

  test('whoever reaches it takes the pin, and the owner follows once it does', async () => {
    const { cable, edge, site, path, instance } = await ownerByCable()
    cable[fault]()
    await expect.poll(() => edge.api.membership.term(), lapsed).toBeUndefined()
    const taken = await site.who(path)
    expect(taken).toMatchObject({ isRestarted: true })
    expect(taken.instance).not.toBe(instance)
    if (fault === 'cut') await cable.mend()
    else cable.wake()
    await expect.poll(() => edge.api.membership.term(), lapsed).toBeDefined()
    await expect.poll(async () => (await site.who(path, edge)).instance).toBe(taken.instance)
    expect(await site.who(path)).toMatchObject({ instance: taken.instance, isRestarted: false })
  })
})
