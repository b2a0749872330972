// engines: postgres, s3
import { randomBytes } from 'node:crypto'
import { startMockUpstream } from '@platform/testing/mock-ai-upstream'
import { startPlatform } from '@platform/testing/platform'
import { serviceEnvironment, startServiceProcess, untilStatus } from '@platform/testing/service-process'
import { newObjectsUrl } from '@platform/testkit/objects'
import { eq } from 'drizzle-orm'
import { expect, onTestFinished, test } from 'vitest'
import { sweepHolds } from '../src/areas/ai/governance/budgets/sweep-holds.ts'
import { aiBudgetWindows, aiUsageEvents } from '../src/areas/ai/governance/table.ts'
import { pollVideos } from '../src/areas/ai/gateway/videos/poll-videos.ts'
import { aiKeys, mockModel, mockProvider, newEntitledOwner } from './ai-providers.ts'

const main = new URL('../src/main.ts', import.meta.url)
const CALLS = 1_000
const CAP_MICROS = 5_000_000
/** When a process is killed, of so many calls that ended. */
const KILL_AFTER = 250
/** What the mock charges, in dollars for a million tokens; a video costs half a dollar. */
const price = { input_mtok: 2, output_mtok: 8 }
const TEXT = 'A sentence of forty characters, as it is. '.repeat(50)

/** How each call asks, in turn. A third of the streams is left in the middle. */
const kinds = [
  {
    path: '/chat/completions',
    body: { model: 'chat', messages: [{ role: 'user', content: TEXT }], max_tokens: 1_000 },
  },
  {
    path: '/chat/completions',
    body: { model: 'slow', messages: [{ role: 'user', content: TEXT }], stream: true, max_tokens: 1_000 },
    isStream: true,
  },
  { path: '/responses', body: { model: 'responses', input: TEXT, max_output_tokens: 1_000 } },
  {
    path: '/responses',
    body: { model: 'responses', input: TEXT, stream: true, max_output_tokens: 1_000 },
    isStream: true,
  },
  {
    path: '/audio/speech',
    body: { model: 'speech', input: TEXT, voice: 'alloy', stream_format: 'sse' },
    isStream: true,
  },
  {
    path: '/audio/transcriptions',
    body: { model: 'transcription', input_audio: { data: Buffer.alloc(4_000, 1).toString('base64'), format: 'wav' } },
  },
] as const
const video = { path: '/videos', body: { model: 'video', prompt: 'A ball', duration: 4 } }
/** Of so many calls one asks for a video. */
const VIDEO_EVERY = 60

interface Outcome {
  id: string
  /** Of the process that answered. */
  pid: number | undefined
  status: number
  /** True if the whole answer came. */
  isWhole: boolean
}

test(`${CALLS} calls on two processes, one of which is killed, cost what a budget counts and no more than it allows (D90)`, async () => {
  const mock = await startMockUpstream({ slowChunkMs: 20 })
  onTestFinished(() => mock.close())
  const route = { price }
  const aiProviders = {
    providers: [mockProvider(mock, 'mock', { responses: true })],
    models: [
      mockModel('chat', route, 'mock', 'mock/plain'),
      mockModel('slow', route, 'mock', 'mock/slow'),
      mockModel('responses', route, 'mock', 'mock/plain'),
      { ...mockModel('speech', route, 'mock', 'mock/plain'), maxOutputTokens: 3_000 },
      {
        ...mockModel('transcription', { ...route, bounds: { file: 2_000 } }, 'mock', 'mock/plain'),
        maxOutputTokens: 500,
      },
      mockModel('video', { price: { requests_kcount: 500 } }, 'mock', 'mock/video'),
    ],
  }
  const objects = await newObjectsUrl()
  onTestFinished(objects.remove)
  const MASTER_KEYS = `test:${randomBytes(32).toString('base64')}`
  const platform = await startPlatform({ aiProviders, objectsUrl: objects.url, env: { ...aiKeys, MASTER_KEYS } })
  onTestFinished(() => platform.close())
  const owner = await newEntitledOwner(platform)
  const budgets = `/organizations/${owner.organizationId}/ai-gateway/budgets`
  const set = await platform.call(owner.token, `PUT ${budgets}`, [{ maxCostMicros: CAP_MICROS }])
  expect(set.status).toBe(200)

  async function startProcess() {
    const own = await serviceEnvironment('api')
    const env = {
      ...own,
      ...aiKeys,
      DATABASE_URL: platform.databaseUrl,
      MASTER_KEYS,
      OBJECTS_URL: objects.url,
      IDP_URL: platform.idpUrl,
      // The audience of tokens.
      PUBLIC_URL: platform.apiUrl,
      HOST: 'localhost',
      S3_PORT: '0',
      TRUSTED_PROXIES: '127.0.0.1,::1',
      AI_PROVIDERS: platform.aiProvidersPath,
    }
    const { child, ended } = startServiceProcess(main, env, 'api')
    await untilStatus(`http://localhost:${own['HEALTH_PORT']}/ready`, 200)
    return { url: `http://localhost:${own['PORT']}`, child, ended }
  }
  const processes = await Promise.all([startProcess(), startProcess()])

  const outcomes: Outcome[] = []
  async function call(n: number): Promise<void> {
    const kind = n % VIDEO_EVERY === 0 ? video : (kinds[n % kinds.length] ?? video)
    const isLeft = 'isStream' in kind && n % 3 === 0
    const id = `call-${n}`
    const leaving = new AbortController()
    const address = processes[n % 2]
    try {
      const answer = await fetch(`${address?.url}/ai/v1${kind.path}`, {
        method: 'POST',
        signal: leaving.signal,
        headers: {
          authorization: `Bearer ${owner.token}`,
          'content-type': 'application/json',
          'x-forwarded-for': `100.${[...randomBytes(3)].join('.')}`,
        },
        body: JSON.stringify({ ...kind.body, user: id }),
      })
      let chunks = 0
      for await (const _ of answer.body ?? []) if (isLeft && answer.ok && ++chunks === 3) leaving.abort()
      outcomes.push({ id, pid: address?.child.pid, status: answer.status, isWhole: true })
    } catch {
      outcomes.push({ id, pid: address?.child.pid, status: 0, isWhole: false })
    }
  }
  let killedPid: number | undefined
  async function killOne(): Promise<void> {
    await expect.poll(() => outcomes.length, { timeout: 100_000, interval: 5 }).toBeGreaterThan(KILL_AFTER)
    const [first] = processes
    killedPid = first?.child.pid
    first?.child.kill('SIGKILL')
    await first?.ended
    processes[0] = await startProcess()
  }
  // In two waves, so that the restarted process has calls too.
  const half = Array.from({ length: CALLS / 2 }, (_, n) => n)
  await Promise.all([killOne(), ...half.map(call)])
  expect(killedPid).toBeDefined()
  await Promise.all(half.map((n) => call(CALLS / 2 + n)))

  const { db } = platform.api
  const later = (ms: number) => ({ ...platform.api, now: () => new Date(Date.now() + ms) })
  const ended = outcomes.filter(({ status, isWhole }) => isWhole && (status === 200 || status === 202))
  expect(ended.length).toBeGreaterThan(100)
  // Processes settle what they know. What the killed one answered in its last moment it settled no more: the sweep does.
  const { organizationId, callerEndUserId } = aiUsageEvents
  const settled = () =>
    db.select({ id: callerEndUserId }).from(aiUsageEvents).where(eq(organizationId, owner.organizationId))
  await expect
    .poll(async () => {
      const ids = new Set((await settled()).map(({ id }) => id))
      return ended.filter(({ id, pid }) => pid !== killedPid && !ids.has(id))
    })
    .toEqual([])
  await sweepHolds(later(3_600_000))
  // Videos last until they are made.
  for (let n = 1; n <= 4; n++) await pollVideos(later(n * 120_000))
  await sweepHolds(later(2 * 86_400_000))

  const [window] = await db
    .select()
    .from(aiBudgetWindows)
    .where(eq(aiBudgetWindows.organizationId, owner.organizationId))
  const ledgerNanos = mock.ledger.reduce((sum, { usage }) => sum + BigInt(usage?.costMicros ?? 0) * 1_000n, 0n)
  const countedNanos = window?.spentCostNanos ?? 0n
  expect(window).toMatchObject({ heldCostNanos: 0n, heldRequests: 0, heldTokens: 0 })
  expect(countedNanos).toBeGreaterThanOrEqual(ledgerNanos)
  expect(countedNanos).toBeLessThanOrEqual(BigInt(CAP_MICROS) * 1_000n)
  // It was needed: far more was asked for than the budget had, and much of it was spent.
  expect(ledgerNanos).toBeGreaterThan(BigInt(CAP_MICROS) * 300n)
  expect(outcomes.filter(({ status }) => status === 429).length).toBeGreaterThan(CALLS / 10)

  const events = await db.select().from(aiUsageEvents).where(eq(aiUsageEvents.organizationId, owner.organizationId))
  const byId = new Map(events.map((event) => [event.callerEndUserId, event]))
  const charged = new Map(
    mock.ledger.map(({ body, usage }) => [body?.['user'], BigInt(usage?.costMicros ?? 0) * 1_000n]),
  )
  const differences = ended.flatMap(({ id, pid }) => {
    const event = byId.get(id)
    if (pid === killedPid && event?.errorCode === 'process_died') return []
    const nanos = charged.get(id)
    const isEqual = event?.providerCostNanos === nanos && event?.countedCostNanos === nanos
    return isEqual ? [] : [{ id, nanos, event }]
  })
  expect(differences).toEqual([])
  // Nobody was answered with a failure of the platform; without an answer are the calls of the killed process and those that left.
  expect(outcomes.filter(({ status }) => ![0, 200, 202, 429].includes(status))).toEqual([])
})
