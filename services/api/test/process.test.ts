import { once } from 'node:events'
import { createServer } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { freePort } from '@platform/testkit/free-port'
import { serviceEnvironment, startServiceProcess, statusOf, untilStatus } from '@platform/testkit/service-process'
import { expect, onTestFinished, test } from 'vitest'

const main = new URL('../src/main.ts', import.meta.url)
const start = (env: Record<string, string>, role?: string) => startServiceProcess(main, env, role)
const environment = async (more: Record<string, string> = {}) =>
  serviceEnvironment('api', {
    IDP_URL: 'http://localhost:1',
    EDGE_PORT: String(await freePort()),
    S3_PORT: String(await freePort()),
    OBJECTS_URL: 'file:///tmp/platform-no-objects',
    ...more,
  })

test.each([
  [{ PUBLIC_URL: '' }, 'PUBLIC_URL is missing: expected the origin that clients reach this service by'],
  [{ IDP_URL: 'https://id.example.com/path' }, 'IDP_URL is not valid'],
  [{ PORT: '70000' }, 'PORT is not valid'],
  [{ DATABASE_PREPARE: 'yes' }, 'DATABASE_PREPARE is not valid'],
  [{ MASTER_KEYS: 'hunter2' }, 'MASTER_KEYS is not valid'],
  [{ OBJECTS_URL: 'ftp://objects' }, 'OBJECTS_URL is not valid'],
  [{ OBJECTS_URL: 's3://objects?endpoint=nowhere' }, 'OBJECTS_URL is not valid'],
  [{ S3_DOMAIN: 'https://s3.example.com' }, 'S3_DOMAIN is not valid'],
  [{ CORS_ORIGINS: 'https://a.example.com,nonsense' }, 'CORS_ORIGINS is not valid'],
  [{ TRUSTED_PROXIES: 'nonsense' }, 'nonsense is not an address or a CIDR range'],
  [{ DATABASE_URL: 'postgres://localhost:1/api' }, 'The database of DATABASE_URL cannot be reached'],
])('a start with %j ends with a sentence and exit code 1', async (wrong, sentence) => {
  const { code, stderr } = await start(await environment(wrong)).ended
  expect([code, stderr]).toEqual([1, expect.stringContaining(sentence)])
  expect(stderr.trimEnd().split('\n')).toHaveLength(1)
  expect(stderr).not.toContain('hunter2')
})

test('a role that there is none of is named, with those there are', async () => {
  const { code, stderr } = await start(await environment(), 'cook').ended
  expect([code, stderr]).toEqual([1, 'There is no role cook; choose one of all, api, worker, edge\n'])
})

test('a taken port is named in a sentence, whichever it is', async () => {
  const taken = createServer()
  await once(taken.listen(0, '127.0.0.1'), 'listening')
  onTestFinished(() => void taken.close())
  const { port } = taken.address() as AddressInfo
  for (const name of ['PORT', 'EDGE_PORT', 'S3_PORT', 'HEALTH_PORT']) {
    const { ended } = start(await environment({ [name]: String(port) }))
    expect([name, await ended]).toEqual([
      name,
      { code: 1, stderr: expect.stringContaining(`Port ${port} is taken`) as string },
    ])
  }
})

test.each([
  ['all', 200, 403, 404],
  ['api', 200, 403, 0],
  ['edge', 0, 0, 404],
  ['worker', 0, 0, 0],
])('the role %s answers on its own ports and no others, and is live and ready', async (role, api, s3, edge) => {
  const env = await environment()
  start(env, role)
  await untilStatus(`http://127.0.0.1:${env.HEALTH_PORT}/ready`, 200)
  expect(await statusOf(`http://127.0.0.1:${env.PORT}/.well-known/jwks.json`)).toBe(api)
  expect(await statusOf(`http://127.0.0.1:${env.S3_PORT}/`)).toBe(s3)
  expect(await statusOf(`http://127.0.0.1:${env.EDGE_PORT}/`)).toBe(edge)
  const internal = await Promise.all(
    ['/live', '/metrics', '/nope'].map((path) => statusOf(`http://127.0.0.1:${env.HEALTH_PORT}${path}`)),
  )
  expect(internal).toEqual([200, 200, 404])
})

test('SIGTERM: readiness fails while requests are still answered, what is under way finishes, then the process ends with 0', async () => {
  const env = await environment()
  const { child, ended } = start(env)
  const ready = `http://127.0.0.1:${env.HEALTH_PORT}/ready`
  await untilStatus(ready, 200)

  const slow = connect(Number(env.PORT), '127.0.0.1')
  const answered = (async () => (await slow.setEncoding('utf8').toArray()).join(''))()
  const body = 'grant_type=client_credentials'
  slow.write(
    `POST /oauth2/token HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: ${body.length}\r\n\r\n`,
  )
  child.kill('SIGTERM')
  await untilStatus(ready, 503)
  expect(await statusOf(`http://127.0.0.1:${env.PORT}/.well-known/jwks.json`)).toBe(200)
  for (const deadline = Date.now() + 10_000; Date.now() < deadline; await sleep(100)) {
    if ((await statusOf(`http://127.0.0.1:${env.PORT}/.well-known/jwks.json`)) === 0) break
  }
  slow.write(body) // the door is closed by now; this request came in before
  expect(await answered).toMatch(/^HTTP\/1\.1 401 .*invalid_client/s)
  expect((await ended).code).toBe(0)
})

test('a process whose launcher is gone ends by itself', async () => {
  const env = await environment({ PLATFORM_PARENT_PIPE: '1' })
  const { child, ended } = start(env)
  await untilStatus(`http://127.0.0.1:${env.HEALTH_PORT}/ready`, 200)
  child.stdin.end()
  expect((await ended).code).toBe(0)
})
