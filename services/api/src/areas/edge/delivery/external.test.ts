import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type IncomingMessage, request, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { openGuardedFetch } from '@platform/guarded-fetch/guarded-fetch'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { eq } from 'drizzle-orm'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { deploy, type Deployed, visit } from '../../../../test/deploy.ts'
import { loggedRequests } from '../../../../test/logged-requests.ts'
import { newOwner, type Owner } from '../../../../test/scenario.ts'
import { requestLogs } from '../../observe/request-logs/table.ts'

interface Received {
  method: string | undefined
  url: string | undefined
  headers: IncomingHttpHeaders
  body: string
}
let received: Received[] = []
let answer: (incoming: IncomingMessage, outgoing: ServerResponse) => void
async function receive(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
  const body = Buffer.concat((await incoming.toArray()) as Buffer[]).toString()
  received.push({ method: incoming.method, url: incoming.url, headers: incoming.headers, body })
  answer(incoming, outgoing)
}
const origin = createServer((incoming, outgoing) => void receive(incoming, outgoing))

let platform: TestPlatform
let ana: Owner
let site: Deployed
beforeAll(async () => {
  await once(origin.listen(0, '127.0.0.1'), 'listening')
  const { port } = origin.address() as AddressInfo
  platform = await startPlatform({ guardedFetch: openGuardedFetch({ allow: ['127.0.0.1/32'] }) })
  ana = await newOwner(platform)
  site = await deploy(platform, ana, {
    output: {
      kind: 'build-output',
      routes: [
        { src: '^/api/(.*)$', dest: `http://127.0.0.1:${port}/v1/$1` },
        { src: '^/teapot$', dest: `http://127.0.0.1:${port}/teapot`, status: 418 },
        { src: '^/private$', dest: 'http://10.0.0.1/' },
        { src: '^/away$', dest: 'http://127.0.0.1:1/' },
      ],
    },
  })
})
afterAll(async () => {
  await platform.close()
  origin.close()
  origin.closeAllConnections()
})

test('an origin does not learn of the sticky URL of the page that leads to it', async () => {
  answer = (_, outgoing) => outgoing.end()
  const referers = []
  for (const referer of [`http://${site.host}/play?a=1&__sticky=a.b.c.d`, `http://${site.host}/play?a=1`]) {
    received = []
    await visit(platform, site.host, '/api/things', { headers: { referer } })
    referers.push(received[0]?.headers.referer)
  }
  expect(referers).toEqual([undefined, `http://${site.host}/play?a=1`])
})

test('an origin is asked without what is the visitor’s or the platform’s, and its answer is passed on', async () => {
  received = []
  answer = (_, outgoing) =>
    outgoing
      .writeHead(201, {
        'content-type': 'text/plain',
        'x-own': 'yes',
        'x-middleware-next': '1',
        'set-cookie': ['a=b', `c=d; Domain=${platform.api.appsUrl.hostname}`],
        connection: 'close, x-hop',
        'x-hop': 'x',
      })
      .end('made')
  const got = await visit(platform, site.host, '/api/things?x=1', {
    method: 'POST',
    body: 'a body',
    headers: {
      'content-length': '6',
      'content-type': 'text/plain',
      accept: 'text/plain',
      cookie: 'session=1',
      authorization: 'Bearer abc',
      'x-forwarded-for': '198.51.100.7',
      'x-real-ip': '198.51.100.7',
      'x-vercel-ip-country': 'XX',
      'x-middleware-subrequest': '1',
      'cdn-loop': 'other; v=1',
      x_forwarded_for: '198.51.100.7',
      x_vercel_ip_country: 'XX',
      my_header: 'mine',
    },
  })
  expect([got.status, got.text, got.headers['x-own'], got.headers['set-cookie']]).toEqual([201, 'made', 'yes', ['a=b']])
  for (const name of ['x-middleware-next', 'x-hop']) expect(got.headers).not.toHaveProperty(name)
  const [{ method, url, body, headers } = { headers: {} } as Received] = received
  expect([method, url, body]).toEqual(['POST', '/v1/things?x=1', 'a body'])
  expect(headers).toMatchObject({
    accept: 'text/plain',
    'content-type': 'text/plain',
    'cdn-loop': 'other; v=1, platform-edge',
    my_header: 'mine',
  })
  for (const name of [
    'cookie',
    'authorization',
    'x-forwarded-for',
    'x-forwarded-host',
    'x-real-ip',
    'x-vercel-ip-country',
    'x-middleware-subrequest',
    'x_forwarded_for',
    'x_vercel_ip_country',
  ])
    expect(headers).not.toHaveProperty(name)
  expect(headers.host).not.toContain('localhost')
})

test('a request that has been here before goes no further', async () => {
  received = []
  for (const loop of ['platform-edge', 'other, Platform-Edge ; v=1']) {
    const got = await visit(platform, site.host, '/api/x', { headers: { 'cdn-loop': loop } })
    expect([got.status, got.headers['x-platform-error']]).toEqual([508, 'loop_detected'])
  }
  expect(received).toEqual([])
})

test.each(['/private', '/away'])('an origin that must not or cannot be asked is a 502 page: %s', async (path) => {
  const got = await visit(platform, site.host, path)
  expect([got.status, got.headers['x-platform-error'], got.headers['cache-control']]).toEqual([
    502,
    'bad_gateway',
    'no-store',
  ])
})

test('an origin that cannot be asked is a 502 page for an upload too', async () => {
  const body = 'x'.repeat(1_000_000)
  const headers = { 'content-length': String(body.length) }
  for (const path of ['/private', '/away']) {
    const got = await visit(platform, site.host, path, { method: 'POST', body, headers })
    expect([path, got.status, got.headers['x-platform-error']]).toEqual([path, 502, 'bad_gateway'])
  }
})

test('a route’s status replaces a 200 and nothing else', async () => {
  answer = (_, outgoing) => outgoing.writeHead(200).end('short and stout')
  expect((await visit(platform, site.host, '/teapot')).status).toBe(418)
  answer = (_, outgoing) => outgoing.writeHead(404).end()
  expect((await visit(platform, site.host, '/teapot')).status).toBe(404)
})

test('an answer is passed on as it comes, and its request is given up when the visitor leaves', async () => {
  const left = Promise.withResolvers<void>()
  answer = (_, outgoing) => {
    outgoing.writeHead(200, { 'content-type': 'text/event-stream' }).write('data: first\n\n')
    outgoing.on('close', () => left.resolve())
  }
  const { port } = new URL(platform.edgeUrl)
  const sent = request({
    port,
    host: 'localhost',
    path: '/api/events',
    headers: { host: site.host },
    agent: false,
  }).end()
  const [events] = (await once(sent, 'response')) as [IncomingMessage]
  const [first] = (await once(events, 'data')) as [Buffer]
  expect(first.toString()).toBe('data: first\n\n')
  sent.destroy()
  await left.promise
})

test('an origin that breaks off breaks off the answer, so that nobody takes it for whole', async () => {
  answer = (_, outgoing) => {
    outgoing.writeHead(200, { 'content-length': '100' }).write('half', () => outgoing.destroy())
  }
  await expect(visit(platform, site.host, '/api/broken')).rejects.toThrow('aborted')
})

test('it stands in the log as passed by, with the sizes of both bodies', async () => {
  answer = (_, outgoing) => outgoing.writeHead(200).end('answer')
  await visit(platform, site.host, '/api/logged', { method: 'PUT', body: '12345', headers: { 'content-length': '5' } })
  const [row] = await loggedRequests(platform, eq(requestLogs.path, '/api/logged'), 1)
  expect(row).toMatchObject({
    path: '/api/logged',
    deploymentId: site.id,
    cacheStatus: 'bypass',
    requestBodyBytes: 5,
    responseBodyBytes: 6,
    servedBy: { deploymentStatus: 'ACTIVE' },
  })
})
