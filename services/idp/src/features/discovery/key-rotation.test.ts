import { randomBytes } from 'node:crypto'
import { createLocalJWKSet, type JSONWebKeySet, jwtVerify } from 'jose'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { headerOf, startTestIdp, type TestIdp } from '../../../test/start.ts'

const SECOND = 1_000
const MINUTE = 60 * SECOND
const DAY = 86_400_000
/** How often a process reads the keys that others made. */
const RELOAD = MINUTE

let instances: TestIdp[] = []
beforeAll(async () => {
  const MASTER_KEYS = `shared:${randomBytes(32).toString('base64')}`
  const first = await startTestIdp({ MASTER_KEYS })
  const shared = { MASTER_KEYS, DATABASE_URL: first.databaseUrl, PUBLIC_URL: first.url, ACCOUNT_URL: first.url }
  instances = [first, await startTestIdp(shared), await startTestIdp(shared)]
})
afterAll(() => Promise.all(instances.map((instance) => instance.close())))

const instance = (n: number): TestIdp => instances[n % 3] as TestIdp
const now = (): number => instance(0).now().getTime()
const advance = (ms: number): void => {
  for (const each of instances) each.advance(ms)
}
const maintain = async ({ deps }: TestIdp): Promise<void> => {
  await deps.keySet.maintain()
  await deps.refreshKeys.maintain()
}

/** A client that caches the JWKS for as long as Cache-Control allows, including stale-while-revalidate. */
function cachingClient(n: number) {
  let held: { jwks: JSONWebKeySet; until: number } | undefined
  return async (token: string): Promise<void> => {
    if (!held || held.until <= now()) {
      const { headers, body } = await instance(n).send('GET /.well-known/jwks.json')
      const [, fresh, stale] = /max-age=(\d+), stale-while-revalidate=(\d+)/.exec(headers['cache-control'] ?? '') ?? []
      held = { jwks: body as JSONWebKeySet, until: now() + (Number(fresh) + Number(stale)) * SECOND }
    }
    const { jwks } = held
    await jwtVerify(token, createLocalJWKSet(jwks), { issuer: instance(0).url, currentDate: new Date(now()) })
  }
}

test('three instances, and clients that cache the JWKS, cross the boundary without one failure (B §2, §5)', async () => {
  // Whatever the date: the next boundary whose key does not exist yet.
  const year = instance(0).now().getUTCFullYear()
  const boundaries = [Date.UTC(year, 6, 1), Date.UTC(year + 1, 0, 1), Date.UTC(year + 1, 6, 1)]
  const boundary = boundaries.find((timeMs) => timeMs > now() + 15 * DAY) ?? Number.NaN
  advance(boundary - 15 * DAY - now())
  for (const each of instances) await maintain(each)
  const client = await instance(0).client()
  let { refresh_token: refreshToken = '' } = await instance(0).tokens(client, await instance(0).person())
  const clients = Array.from({ length: 9 }, (_, n) => cachingClient(n))
  const signers: { kid: unknown; at: number }[] = []

  /** Refreshes at one instance; all clients, and userinfo at the next instance, accept the tokens. */
  async function turn(n: number): Promise<void> {
    const { status, body } = await instance(n).token({
      grant_type: 'refresh_token',
      client_id: client.id,
      refresh_token: refreshToken,
    })
    expect(status).toBe(200)
    refreshToken = body.refresh_token
    signers.push({ kid: headerOf(body.access_token).kid, at: now() })
    for (const verify of clients) for (const token of [body.access_token, body.id_token]) await verify(token)
    const authorization = `Bearer ${body.access_token}`
    expect((await instance(n + 1).send('GET /oauth2/userinfo', undefined, { authorization })).status).toBe(200)
  }
  /** Advances from one time to another; each instance reads the keys once a minute, at its own offset. */
  async function live(from: number, to: number, step: number): Promise<void> {
    advance(from - now())
    for (let n = 0; now() < to; n++, advance(step)) {
      await maintain(instance(n))
      await turn(n)
    }
  }

  const kids = async () => {
    const { body } = await instance(0).send('GET /.well-known/jwks.json')
    return (body as JSONWebKeySet).keys.map(({ kid }) => kid)
  }
  const before = await kids()
  expect(before).toHaveLength(1)
  // The successor is published 14 days ahead; every cache without it expires long before it signs.
  await live(boundary - 14 * DAY - 5 * MINUTE, boundary - 14 * DAY + 20 * MINUTE, RELOAD / 3)
  const after = await kids()
  expect(after).toHaveLength(2)
  for (let day = 13; day > 0; day--) await live(boundary - day * DAY, boundary - day * DAY + 1, SECOND)
  await live(boundary - 17 * MINUTE, boundary + 17 * MINUTE, RELOAD / 3)

  const [old] = before
  const next = after.find((kid) => kid !== old)
  for (const { kid, at } of signers) expect({ kid, at }).toEqual({ kid: at < boundary ? old : next, at })
  expect(await kids()).toEqual([old, next])
  // A day later the old key is gone from every instance's JWKS, whenever they last read.
  advance(boundary + DAY + SECOND - now())
  for (let n = 0; n < 3; n++) {
    const { body } = await instance(n).send('GET /.well-known/jwks.json')
    expect((body as JSONWebKeySet).keys.map(({ kid }) => kid)).toEqual([next])
  }
  await turn(0)
})
