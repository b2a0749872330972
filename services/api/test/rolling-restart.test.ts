import { Agent, request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { freePort } from '@platform/testkit/free-port'
import { serviceEnvironment, startServiceProcess, statusOf, untilStatus } from '@platform/testing/service-process'
import { isDrill } from '@platform/testkit/test-environment'
import { sql } from 'drizzle-orm'
import { expect, onTestFinished, test } from 'vitest'
import { composeApi as compose } from '@platform/testing/api'
import { loadConfig } from '../src/config.ts'
import type { UserActor } from '../src/http/actor.ts'
import { createApiKey } from '../src/areas/credentials/api-keys/api-keys.ts'
import { createApplication } from '../src/areas/tenancy/applications/applications.ts'
import { createOrganization } from '../src/areas/tenancy/organizations/organizations.ts'
import { requireClientProgram, findClients } from './client-process.ts'
import { startNginx } from './nginx.ts'

const main = new URL('../src/main.ts', import.meta.url)
const REQUESTS_A_SECOND = 200
/** Restarts of each of the two processes. */
const ROUNDS = isDrill ? 10 : 1
const NOTICE_MS = 500
const KEYS = 8
/** Creations in one application wait for each other; over several a slow machine keeps up with them. */
const APPLICATIONS = 4

const nginxFound = await findClients(['nginx'], ['-v'])

/** Two processes of the API on one database, an application with keys, and what addresses them through nginx. */
async function startTwo() {
  const [port, ...ports] = await Promise.all([freePort(), freePort(), freePort()])
  const shared = await serviceEnvironment('api', {
    IDP_URL: 'http://localhost:1',
    OBJECTS_URL: 'file:///tmp/platform-no-objects',
    PUBLIC_URL: `http://127.0.0.1:${port}`,
    S3_PORT: '0',
    TRUSTED_PROXIES: '127.0.0.1',
    STOP_NOTICE_MS: String(NOTICE_MS),
  })
  const environments = await Promise.all(
    ports.map(async (each) => ({ ...shared, PORT: String(each), HEALTH_PORT: String(await freePort()) })),
  )
  const { deps, close } = await compose(loadConfig(shared))
  onTestFinished(close)
  const scopes = ['network:env_vars:read', 'network:env_vars:write', 'network:applications:read']
  const by: UserActor = {
    kind: 'user',
    userId: 'u',
    clientId: 'c',
    scopes: new Set(scopes),
    authenticatedAt: undefined,
  }
  const organization = await createOrganization(deps, by, { name: 'Rolling' })
  const applications = await Promise.all(
    Array.from({ length: APPLICATIONS }, (_, n) => createApplication(deps, organization, { name: `Rolling ${n}` })),
  )
  const applicationOf = (n: number) => applications[n % APPLICATIONS] as (typeof applications)[number]
  const keys = await Promise.all(
    Array.from({ length: KEYS }, (_, n) => createApiKey(deps, by, applicationOf(n), { name: `key ${n}`, scopes })),
  )
  const start = async (n: number) => {
    const env = environments[n] ?? shared
    const service = startServiceProcess(main, env, 'api')
    await untilStatus(`http://127.0.0.1:${env.HEALTH_PORT}/ready`, 200)
    return service
  }
  const untilServing = async (n: number) => {
    const metrics = `http://127.0.0.1:${environments[n]?.HEALTH_PORT}/metrics`
    const isServing = async () =>
      /^http_request_duration_seconds_count\{.*\} [1-9]/m.test(await (await fetch(metrics)).text())
    await expect.poll(isServing).toBe(true)
  }
  const processes = [await start(0), await start(1)]
  return {
    readErrors: (await startNginx([{ port, upstreams: ports }])).readErrors,
    deps,
    port,
    applicationOf,
    keys,
    /**
     * SIGTERM, as any supervisor sends it, and a new process on the same port once that one has ended. Returns when nginx
     * sends it requests again: until then the other one must not stop.
     */
    async restart(n: number) {
      const { child, ended } = processes[n] as (typeof processes)[number]
      child.kill('SIGTERM')
      expect(await ended).toMatchObject({ code: 0 })
      processes[n] = await start(n)
      await untilServing(n)
    },
  }
}

const addressOf = (n: number): string => `198.18.${(n >> 8) & 255}.${n & 255}`

test(
  'two processes behind nginx are restarted in turn under 200 requests a second, half of them POST, and none fails',
  { timeout: 600_000 },
  async (context) => {
    requireClientProgram(context, 'nginx', nginxFound)
    const { readErrors, deps, port, applicationOf, keys, restart } = await startTwo()
    const agent = new Agent({ keepAlive: true, maxSockets: 200 })
    onTestFinished(() => agent.destroy())

    const send = (n: number, method: string, path: string, headers: Record<string, string>, body?: string) =>
      new Promise<{ status: number; text: string }>((resolve, reject) => {
        const sent = request({
          port,
          host: '127.0.0.1',
          method,
          path,
          agent,
          headers: { ...headers, 'x-forwarded-for': addressOf(n) },
        })
        sent.on('error', reject).on('response', (answer) => {
          let text = ''
          answer.setEncoding('utf8').on('data', (chunk: string) => void (text += chunk))
          answer.on('end', () => resolve({ status: answer.statusCode ?? 0, text })).on('error', reject)
        })
        sent.end(body)
      })
    const form = { 'content-type': 'application/x-www-form-urlencoded' }
    const exchange = (n: number) => {
      const key = keys[n % KEYS]
      const fields = { grant_type: 'client_credentials', client_id: key?.id ?? '', client_secret: key?.secret ?? '' }
      return send(n, 'POST', '/oauth2/token', form, new URLSearchParams(fields).toString())
    }
    const newTokens = () =>
      Promise.all(
        keys.map(async (_, n) => (JSON.parse((await exchange(n)).text) as { access_token: string }).access_token),
      )
    // They live five minutes, which a slow machine may need.
    let tokens = await newTokens()
    const bearer = (n: number) => ({ authorization: `Bearer ${tokens[n % KEYS]}` })
    const create = (n: number) => {
      // Every fourth request is one: they take turns with the applications by themselves.
      const turn = Math.floor(n / 4)
      const headers = { ...bearer(turn), 'content-type': 'application/json' }
      const body = JSON.stringify({ key: `K_${n}`, value: 'v' })
      return send(n, 'POST', `/applications/${applicationOf(turn).id}/env-vars`, headers, body)
    }
    const read = (n: number) => send(n, 'GET', `/applications/${applicationOf(n).id}/hostnames`, bearer(n))

    const failures: string[] = []
    let created = 0
    let sentCount = 0
    const underWay = new Set<Promise<void>>()
    const attempt = async (n: number): Promise<void> => {
      // GET, POST, GET, POST: half of the POSTs exchange a key, half create a variable.
      const [work, right] = n % 2 === 0 ? [read, 200] : n % 4 === 1 ? [exchange, 200] : [create, 201]
      try {
        const { status, text } = await work(n)
        if (status !== right) failures.push(`${work.name} ${status} ${text}`)
        else if (status === 201) created++
      } catch (error) {
        failures.push(`${work.name} ${(error as Error).message}`)
      }
    }
    const startedAt = performance.now()
    const pacing = setInterval(() => {
      for (; sentCount < ((performance.now() - startedAt) / 1_000) * REQUESTS_A_SECOND; sentCount++) {
        const done = attempt(sentCount).finally(() => underWay.delete(done))
        underWay.add(done)
      }
    }, 5)

    // A stream that is turned away comes back, and misses nothing.
    const numbers: number[] = []
    const following = new AbortController()
    const follow = async (): Promise<void> => {
      while (!following.signal.aborted) {
        const answer = await fetch(`http://127.0.0.1:${port}/applications/${applicationOf(0).id}/activity/stream`, {
          headers: { ...bearer(0), 'last-event-id': String(numbers.at(-1) ?? 0), 'x-forwarded-for': addressOf(0) },
          signal: following.signal,
        }).catch(() => undefined)
        if (answer?.status !== 200 || !answer.body) {
          // 503: a process that is stopping opens no stream.
          if (answer && answer.status !== 503) failures.push(`stream ${answer.status}`)
          await sleep(100)
          continue
        }
        let text = ''
        try {
          for await (const chunk of answer.body as unknown as AsyncIterable<Uint8Array>) {
            text += Buffer.from(chunk).toString()
            const whole = text.slice(0, text.lastIndexOf('\n\n') + 2)
            text = text.slice(whole.length)
            for (const [, id] of whole.matchAll(/^id: (\d+)$/gm)) numbers.push(Number(id))
          }
        } catch (error) {
          if (!following.signal.aborted) failures.push(`stream broke: ${(error as Error).message}`)
        }
      }
    }
    const followed = follow()

    for (let round = 0; round < ROUNDS; round++) {
      for (const n of [0, 1]) await restart(n)
      tokens = await newTokens()
    }
    clearInterval(pacing)
    await Promise.all(underWay)

    expect(failures, await readErrors()).toEqual([])
    expect(created).toBeGreaterThan((sentCount / 4) * 0.9)
    const [stored] = await deps.db.execute<{ count: number }>(sql`select count(*)::int as count from env_vars`)
    expect(stored?.count).toBe(created)
    const last = Number(
      (
        await deps.db.execute<{ n: string }>(
          sql`select activity_number as n from applications where id = ${applicationOf(0).id}`,
        )
      )[0]?.n,
    )
    await expect.poll(() => numbers.at(-1)).toBe(last)
    following.abort()
    await followed
    expect(numbers).toEqual(Array.from({ length: last }, (_, n) => n + 1))
    expect(await statusOf(`http://127.0.0.1:${port}/.well-known/jwks.json`)).toBe(200)
  },
)
