// engines: redis
import { createServer, type Server, type Socket, connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { unless } from '@platform/test-runner/task-meta'
import { startCable } from '@platform/testkit/cable'
import { createServiceDatabase } from '@platform/testing/service-databases'
import { testRedisUrl } from '@platform/testkit/databases'
import { freePort } from '@platform/testkit/free-port'
import { startOwnPostgres } from '@platform/testkit/own-postgres'
import { everyScope, startPlatform, type TestPlatform } from '@platform/testing/platform'
import { afterEach, expect, test } from 'vitest'
import { exchange, newKey, newOwner } from './scenario.ts'
import { bucketName, newS3User, sendRaw, sendSigned, startS3 } from './s3.ts'

const cleanups: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const clean of cleanups.splice(0).toReversed()) await clean()
})

/** Sends requests without a pause until told to stop; answers how often each status came. */
function underLoad(platform: TestPlatform, token: string, on: string) {
  const seen = new Map<number, number>()
  let slowestMs = 0
  const over = new AbortController()
  const workers = Array.from({ length: 16 }, async () => {
    while (!over.signal.aborted) {
      const startedAt = performance.now()
      const { status } = await platform.call(token, on, undefined, {
        'x-forwarded-for': `198.19.${Math.floor(Math.random() * 256)}.${Math.floor(Math.random() * 256)}`,
      })
      slowestMs = Math.max(slowestMs, performance.now() - startedAt)
      seen.set(status, (seen.get(status) ?? 0) + 1)
    }
  })
  return {
    seen,
    async stop() {
      over.abort()
      await Promise.all(workers)
      return { seen, slowestMs }
    },
  }
}

const untilAnswers = async (platform: TestPlatform, token: string, on: string, status: number): Promise<void> => {
  for (const deadline = Date.now() + 15_000; Date.now() < deadline; await sleep(50)) {
    if ((await platform.call(token, on)).status === status) return
  }
  throw new Error(`${on} did not come to answer ${status}`)
}

test('with Postgres stopped under load answers are 503, and right again once it is back (D22, D66)', async () => {
  const server = await startOwnPostgres(['api', 'idp'])
  cleanups.push(() => server.remove())

  const platform = await startPlatform({ databases: { api: server.url('api'), idp: server.url('idp') } })
  cleanups.push(() => platform.close())
  const owner = await newOwner(platform)
  const key = await newKey(platform, owner, ['network:env_vars:read'])
  const line = `GET /organizations/${owner.organizationId}`

  const load = underLoad(platform, owner.token, line)
  await sleep(300)
  await server.stop()
  await untilAnswers(platform, owner.token, line, 503)
  const away = await platform.call(owner.token, line)
  expect(away.body).toEqual({ error: 'A dependency is temporarily unavailable; try again later' })
  expect(await exchange(platform, key.id, key.secret)).toMatchObject({
    status: 503,
    body: { error: 'temporarily_unavailable' },
  })
  const idp = await fetch(`${platform.idpUrl}/oauth2/token`, {
    method: 'POST',
    body: new URLSearchParams({ grant_type: 'refresh_token', client_id: platform.publicClientId, refresh_token: 'x' }),
  })
  expect([idp.status, ((await idp.json()) as { error: string }).error]).toEqual([503, 'temporarily_unavailable'])
  expect((await platform.call(null, 'GET /.well-known/jwks.json')).status).toBe(200) // what needs no database goes on
  await sleep(500)

  await server.start()
  await untilAnswers(platform, owner.token, line, 200)
  const { seen, slowestMs } = await load.stop()
  expect([...seen.keys()].toSorted((a, b) => a - b)).toEqual([200, 503])
  expect(slowestMs).toBeLessThan(15_000)
  expect((await platform.call(await owner.person.token(everyScope), line)).status).toBe(200)
  expect((await exchange(platform, key.id, key.secret)).status).toBe(200)
})

test('every listener answers 503 while Postgres hangs, /s3 too, and nobody is cut off (A §7, D22)', async () => {
  const cable = await startCable(new URL((await createServiceDatabase('api')).url))
  cleanups.push(async () => cable.close())
  const platform = await startPlatform({
    databases: { api: cable.url, idp: (await createServiceDatabase('idp')).url },
  })
  cleanups.push(() => platform.close())
  const s3 = await startS3(platform)
  cleanups.push(() => s3.close())
  const user = await newS3User(s3)
  const name = bucketName()
  const send = (method: string, path: string, body?: string) =>
    sendSigned(s3, { method, path: `/s3${path}`, ...(body !== undefined && { body }) }, { key: user.key })
  expect((await send('PUT', `/${name}`)).status).toBe(200)
  cable.hang()
  cleanups.push(async () => cable.wake())
  const signed = await Promise.all([
    send('PUT', `/${name}/key`, 'body'),
    send('PUT', `/${name}/large`, 'x'.repeat(100_000)),
    send('GET', `/${name}/key`),
    send('GET', `/${name}?list-type=2`),
    sendRaw(s3, { path: `/s3/${name}/key` }),
  ])
  expect(signed.map(({ status, code }) => [status, code])).toEqual(signed.map(() => [503, 'ServiceUnavailable']))
  const rest = await platform.call(user.owner.token, `GET /organizations/${user.owner.organizationId}`)
  expect(rest.status).toBe(503)
  // A creation is a transaction, whose BEGIN, statements and COMMIT all wait.
  const created = await platform.call(user.owner.token, 'POST /organizations', { name: 'Late' })
  expect(created.status).toBe(503)
  expect((await exchange(platform, user.key.id, user.key.secret)).status).toBe(503)
  cable.wake()
  await untilAnswers(platform, user.owner.token, `GET /organizations/${user.owner.organizationId}`, 200)
  expect((await send('PUT', `/${name}/key`, 'body')).status).toBe(200)
})

/** Stands before a server and can be cut: what was connected breaks, and nobody gets in. */
async function startCuttableProxy(
  target: URL,
): Promise<{ url: string; cut: () => Promise<void>; mend: () => Promise<void>; freeze: () => void }> {
  const port = await freePort()
  const sockets = new Set<Socket>()
  let isFrozen = false
  let server: Server
  const listen = () =>
    new Promise<void>((resolve) => {
      server = createServer((socket) => {
        const upstream = connect(Number(target.port), target.hostname)
        for (const [from, to] of [
          [socket, upstream],
          [upstream, socket],
        ] as const) {
          sockets.add(from)
          from
            .on('data', (chunk) => isFrozen || to.write(chunk))
            .on('error', () => to.destroy())
            .on('close', () => to.destroy())
        }
      }).listen(port, '127.0.0.1', resolve)
    })
  const cut = () =>
    new Promise<void>((resolve) => {
      server.close(() => resolve())
      for (const socket of sockets) socket.destroy()
      sockets.clear()
    })
  await listen()
  return { url: `redis://127.0.0.1:${port}`, cut, mend: listen, freeze: () => void (isFrozen = !isFrozen) }
}

const redisUrl = testRedisUrl()
test(
  'with Redis stopped, or silent, requests are answered without a pause and limits counted here, until it is back (A §7, D22)',
  unless(redisUrl === undefined ? 'no Redis: TEST_REDIS_URL' : undefined),
  async () => {
    const proxy = await startCuttableProxy(new URL(redisUrl ?? ''))
    cleanups.push(proxy.cut)
    const platform = await startPlatform({ redisUrl: proxy.url })
    cleanups.push(() => platform.close())
    const owner = await newOwner(platform)
    const load = underLoad(platform, owner.token, 'GET /organizations')
    for (const [n, outage] of [() => proxy.cut(), async () => proxy.freeze()].entries()) {
      await sleep(200)
      await outage()
      await sleep(700)
      const from = { 'x-forwarded-for': `198.20.0.${n}` }
      const statuses = await Promise.all(
        Array.from({ length: 601 }, () => platform.call(null, 'GET /.well-known/jwks.json', undefined, from)),
      )
      expect(statuses.filter(({ status }) => status === 429)).toHaveLength(1) // the limit holds in this process
      if (outage.toString().includes('cut')) await proxy.mend()
      else proxy.freeze()
    }
    const { seen, slowestMs } = await load.stop()
    expect([...seen.keys()]).toEqual([200])
    expect(slowestMs).toBeLessThan(5_000)
  },
)
