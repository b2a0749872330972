// engines: postgres
import { holding } from '@platform/testkit/holding'
import { everyScope, startPlatform, type TestPlatform } from '@platform/testing/platform'
import { and, eq } from 'drizzle-orm'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { newDeployment } from '../../../../test/deployments.ts'
import { newOwner, type Owner } from '../../../../test/scenario.ts'
import { setMember } from '../../tenancy/organizations/members.ts'
import { members } from '../../tenancy/organizations/table.ts'
import { openStreamSlots } from './stream-slots.ts'

let platform: TestPlatform
beforeAll(async () => {
  platform = await startPlatform({ heartbeatMs: 200 })
})
afterAll(() => platform.close())

/** Opens a stream over HTTP; it is closed at the end of the test. */
async function open(path: string, token: string, headers: Record<string, string> = {}) {
  const gone = new AbortController()
  const close = () => gone.abort()
  onTestFinished(close)
  const answer = await fetch(`${platform.apiUrl}${path}`, {
    headers: { authorization: `Bearer ${token}`, ...headers },
    signal: gone.signal,
  })
  return { answer, close }
}

describe.each([
  {
    name: 'the log of a deployment',
    pathOf: async (owner: Owner) =>
      `/deployments/${(await newDeployment(platform, owner, { status: 'PENDING' })).id}/logs/stream`,
  },
  {
    name: 'the requests of an application',
    pathOf: async (owner: Owner) => `/applications/${owner.applicationId}/requests/stream`,
  },
])('$name', ({ pathOf }) => {
  test('has 20 streams at once and no more; a closed one makes room (A §6, D86)', async () => {
    const owner = await newOwner(platform)
    const path = await pathOf(owner)
    const streams = await Promise.all(Array.from({ length: 20 }, () => open(path, owner.token)))
    expect(streams.map(({ answer }) => answer.status)).toEqual(Array<number>(20).fill(200))
    const { answer } = await open(path, owner.token)
    expect([answer.status, answer.headers.get('retry-after')]).toEqual([429, null])
    expect(await answer.json()).toEqual({ error: 'too_many_concurrent_streams', message: expect.any(String) as string })
    const other = await newOwner(platform)
    expect((await open(await pathOf(other), other.token)).answer.status).toBe(200)
    streams[0]?.close()
    await expect.poll(async () => (await open(path, owner.token)).answer.status).toBe(200)
  })

  test('ends for a member who was removed, with when to come back, and then is a 404 (D86)', async () => {
    const owner = await newOwner(platform)
    const path = await pathOf(owner)
    const mia = await platform.person()
    await setMember(platform.api, owner.organizationId, mia.userId, 'MEMBER')
    const token = await mia.token(everyScope)
    const { answer } = await open(path, token)
    expect(answer.status).toBe(200)
    let text = ''
    const beats = () => text.split(': \n\n').length - 1
    const over = (async () => {
      for await (const chunk of answer.body as unknown as AsyncIterable<Uint8Array>)
        text += Buffer.from(chunk).toString()
    })()
    // Its authority is checked at every fourth beat.
    await expect.poll(beats).toBeGreaterThan(8)
    const isMia = and(eq(members.organizationId, owner.organizationId), eq(members.userId, mia.userId))
    await platform.api.db.delete(members).where(isMia)
    const atRemoval = beats()
    await over
    // It would otherwise have ended at the 60th beat.
    expect(beats()).toBeLessThan(atRemoval + 20)
    expect(text).toMatch(/: \n\nretry: \d+\n\n$/)
    expect((await open(path, token)).answer.status).toBe(404)
  })

  test.each(['x', '1', '-1'])('with the Last-Event-ID %j is a 422 in the headers (D16)', async (id) => {
    const owner = await newOwner(platform)
    const { answer } = await open(await pathOf(owner), owner.token, { 'last-event-id': id })
    expect(answer.status).toBe(422)
    expect(await answer.json()).toMatchObject({ on: 'headers', property: '/Last-Event-ID' })
  })
})

test('of two streams that are opened at the same time one takes the last slot, whichever processes they are of', async () => {
  const { applicationId } = await newOwner(platform)
  const processes = [openStreamSlots(platform.api), openStreamSlots(platform.api)] as const
  onTestFinished(async () => void (await Promise.all(processes.map((slots) => slots.close()))))
  for (let n = 0; n < 19; n++) await processes[0].take(applicationId)
  const outcomeOf = (taken: Promise<unknown>) => taken.then(() => 'taken', String)
  // Both may read how many are open; nobody writes.
  const outcomes = await holding(platform.databaseUrl, (held) => held`lock table open_streams in share mode`, [
    () => outcomeOf(processes[0].take(applicationId)),
    () => outcomeOf(processes[1].take(applicationId)),
  ])
  expect(outcomes).toEqual(['taken', expect.stringContaining('TooManyStreams')])
})
