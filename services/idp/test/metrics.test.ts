import { freePort } from '@platform/testkit/free-port'
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import { createCheapHashing } from '@platform/testing/cheap-hashing'
import { startTestIdp, type TestIdp } from './start.ts'

const passwordHashing = createCheapHashing()
let idp: TestIdp
let metricsUrl = ''
beforeAll(async () => {
  const [HEALTH_PORT, closed] = [String(await freePort()), await freePort()]
  metricsUrl = `http://127.0.0.1:${HEALTH_PORT}/metrics`
  idp = await startTestIdp(
    { HEALTH_PORT, BUILD_COMMIT: 'abc1234', REDIS_URL: `redis://127.0.0.1:${closed}` },
    { hashing: passwordHashing },
  )
})
afterAll(() => idp.close())

/** The lines of Prometheus text, by name and labels. What other files counted before is in them. */
const scrape = async (): Promise<Map<string, number>> => {
  const text = await (await fetch(metricsUrl)).text()
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'))
  return new Map(lines.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ')))]))
}

test('requests are counted by endpoint and status, their time with them, on the internal listener alone (D12)', async () => {
  const counted = async () => {
    const lines = await scrape()
    return (operation: string, status: number) =>
      lines.get(`http_request_duration_seconds_count{operation="${operation}",status="${status}"}`) ?? 0
  }
  const before = await counted()
  const client = await idp.client()
  const { refresh_token = '' } = await idp.tokens(client, await idp.person())
  const form = { grant_type: 'refresh_token', client_id: client.id, refresh_token }
  expect((await idp.token(form)).status).toBe(200)
  expect((await idp.token(form)).status).toBe(400)
  await idp.send('PUT /oauth2/token')
  await idp.send('GET /users/ana@example.com?secret=x')
  const after = await counted()
  const more = (operation: string, status: number) => after(operation, status) - before(operation, status)
  expect(more('POST /oauth2/token', 200)).toBe(2)
  expect(more('POST /oauth2/token', 400)).toBe(1)
  expect(more('unknown', 405)).toBe(1)
  expect(more('unknown', 404)).toBe(1)
  expect((await idp.send('GET /metrics')).status).toBe(404)
  const text = [...(await scrape()).keys()].join('\n')
  expect(text).toMatch(
    /http_request_duration_seconds_bucket\{le="0.01",operation="POST \/oauth2\/token",status="200"\}/,
  )
  expect(text).not.toContain('ana@example.com')
})

test('a limit that is counted here because Redis is away', async () => {
  const fallbacks = async () => (await scrape()).get('rate_limit_fallbacks_total') ?? 0
  const client = await idp.client()
  const form = { client_id: client.id, scope: 'openid' }
  const before = await fallbacks()
  expect((await idp.send('POST /oauth2/device_authorization', form)).status).toBe(200)
  expect((await fallbacks()) - before).toBe(1)
})

test('passwords that are hashed and that wait for it, and queries of the pool', async () => {
  const gate = Promise.withResolvers<boolean>()
  const verify = vi.spyOn(passwordHashing, 'verify').mockReturnValue(gate.promise)
  onTestFinished(() => verify.mockRestore())
  const hashing = Array.from({ length: 20 }, () => idp.deps.passwords.verify(undefined, 'wrong password', 'ordinary'))
  const during = await scrape()
  const [running = 0, waiting = 0] = ['running', 'waiting'].map((state) =>
    during.get(`work_under_way{kind="password_hash",state="${state}"}`),
  )
  expect(running).toBe(verify.mock.calls.length)
  expect(running).toBeGreaterThan(0)
  expect(waiting).toBeGreaterThan(0)
  expect(running + waiting).toBe(20)
  gate.resolve(false)
  await Promise.all(hashing)

  const queries = async () => (await scrape()).get('database_queries{pool="idp"}')
  await idp.deps.db
    .transaction(async (tx) => {
      await tx.execute('lock table clients')
      const stuck = Promise.all(Array.from({ length: 30 }, async () => idp.deps.db.execute('select from clients')))
      expect(await queries()).toBe(30)
      return { stuck }
    })
    .then(({ stuck }) => stuck)
  expect(await queries()).toBe(0)
  const after = await scrape()
  expect(after.get('work_under_way{kind="password_hash",state="waiting"}')).toBe(0)
})

test('what runs is told by /live and by a metric', async () => {
  const live = await fetch(metricsUrl.replace('/metrics', '/live'))
  const node = process.versions.node
  expect([live.status, await live.json()]).toEqual([200, { status: 'ok', service: 'idp', commit: 'abc1234', node }])
  expect((await scrape()).get(`build_info{service="idp",commit="abc1234",node="${node}"}`)).toBe(1)
})
