import { once } from 'node:events'
import { request } from 'node:http'
import { connect } from 'node:net'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { eq } from 'drizzle-orm'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { deploy, giveHostname, visit } from '../../../../test/deploy.ts'
import { loggedRequests } from '../../../../test/logged-requests.ts'
import { newOwner } from '../../../../test/scenario.ts'
import { assetIdOf } from '../../deploy/deployments/asset-id.ts'
import { requestLogs } from '../../observe/request-logs/table.ts'

let platform: TestPlatform
beforeAll(async () => {
  platform = await startPlatform({
    env: { EDGE_REGION: 'eu-central', EDGE_LOCATION: 'fra1', COUNTRY_HEADER: 'CF-IPCountry' },
  })
})
afterAll(() => platform.close())

const rowsOf = (applicationId: string, count: number) =>
  loggedRequests(platform, eq(requestLogs.applicationId, applicationId), count)

/** Sends raw bytes to the edge and returns everything it answers until it closes. */
async function sendRaw(bytes: string): Promise<string> {
  const { port } = new URL(platform.edgeUrl)
  const socket = connect(Number(port), 'localhost')
  socket.write(bytes)
  return (await socket.setEncoding('latin1').toArray()).join('')
}

test('an answer stands in the log of its application, with what gave it, and no secret with it', async () => {
  const owner = await newOwner(platform)
  const { id, host } = await deploy(platform, owner, { files: { 'dir/page.html': 'content' } })
  const headers = {
    'cf-ipcountry': 'at',
    cookie: 'session=1',
    authorization: 'Bearer abc',
    'user-agent': 'reader/1',
    referer: 'https://x.example/?token=1',
  }
  const first = await visit(platform, host, '/dir/page?a=1&token=abc', { headers })
  expect(first.text).toBe('content')
  await visit(platform, host, '/dir/page')
  const rows = await rowsOf(owner.applicationId, 2)
  const row = rows.find(({ query }) => query !== '')
  const second = rows.find(({ query }) => query === '')
  expect(row).toMatchObject({
    deploymentId: id,
    servedBy: {
      deploymentStatus: 'ACTIVE',
      deploymentAsset: {
        id: assetIdOf(id, 'dir/page.html'),
        path: 'dir/page.html',
        objectKey: 'ed7002b439e9ac845f22357d822bac1444730fbdb6016d3ec9432297b9ec9f73',
      },
    },
    method: 'GET',
    hostname: host,
    path: '/dir/page',
    query: 'a=1&token=[redacted]',
    protocol: 'HTTP/1.1',
    country: 'AT',
    userAgent: 'reader/1',
    referer: 'https://x.example/',
    status: 200,
    cacheStatus: 'miss',
    region: 'eu-central',
    edgeLocation: 'fra1',
    requestBodyBytes: 0,
    responseBodyBytes: 7,
  })
  expect(row?.responseHeaders).toMatchObject({ 'content-type': 'text/html; charset=utf-8', 'content-length': '7' })
  expect(row?.requestHeaders).toMatchObject({ cookie: '[redacted]', authorization: '[redacted]' })
  expect(row?.bytesSent).toBeGreaterThan(7 + 200)
  expect(row?.bytesSent).toBeLessThan(7 + 600)
  expect(second).toMatchObject({ cacheStatus: 'hit', country: null })
  expect(assetIdOf(id, 'dir/page.html')).toMatch(
    /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/,
  )
})

test('a country is believed of trusted proxies alone', async () => {
  const direct = await startPlatform({ env: { COUNTRY_HEADER: 'CF-IPCountry', TRUSTED_PROXIES: '192.0.2.1' } })
  try {
    const owner = await newOwner(direct)
    const { host } = await deploy(direct, owner, { files: { 'index.html': 'x' } })
    await visit(direct, host, '/', { headers: { 'cf-ipcountry': 'AT' } })
    expect(await loggedRequests(direct, undefined, 1)).toMatchObject([{ country: null }])
  } finally {
    await direct.close()
  }
})

test('sizes are those of what was sent: HEAD, 304, ranges, refusals, bodies', async () => {
  const owner = await newOwner(platform)
  const { host } = await deploy(platform, owner, { files: { 'k.bin': '0123456789' } })
  const { etag = '' } = (await visit(platform, host, '/k.bin')).headers
  await visit(platform, host, '/k.bin', { method: 'HEAD' })
  await visit(platform, host, '/k.bin', { headers: { 'if-none-match': etag } })
  await visit(platform, host, '/k.bin', { headers: { range: 'bytes=2-4' } })
  await visit(platform, host, '/k.bin', { headers: { range: 'bytes=20-' } })
  await visit(platform, host, '/k.bin', { headers: { 'if-match': '"x"' } })
  const refused = await visit(platform, host, '/k.bin', {
    method: 'POST',
    body: 'five!',
    headers: { 'content-length': '5' },
  })
  const missing = await visit(platform, host, '/none')
  const rows = await rowsOf(owner.applicationId, 8)
  const lines = rows.map(({ method, status, cacheStatus, requestBodyBytes, responseBodyBytes }) =>
    [method, status, cacheStatus, requestBodyBytes, responseBodyBytes].join(' '),
  )
  const expected = [
    'GET 200 miss 0 10',
    'HEAD 200 hit 0 0',
    'GET 304 revalidated 0 0',
    'GET 206 hit 0 3',
    'GET 416  0 0',
    'GET 412  0 0',
    `POST 405  0 ${refused.body.length}`,
    `GET 404  0 ${missing.body.length}`,
  ]
  expect(new Set(lines)).toEqual(new Set(expected))
  for (const row of rows) expect(row.bytesSent - row.responseBodyBytes).toBeGreaterThan(100)
})

test('what does not answer is logged too, where it is known whose hostname it is', async () => {
  const owner = await newOwner(platform)
  const host = await giveHostname(platform, owner.applicationId)
  const { id, host: building } = await deploy(platform, owner, { status: 'BUILDING' })
  await visit(platform, host)
  await visit(platform, building)
  await visit(platform, `nobody.${platform.api.appsUrl.host}`)
  const rows = await rowsOf(owner.applicationId, 2)
  const first = rows.find(({ deploymentId }) => deploymentId === null)
  const second = rows.find(({ deploymentId }) => deploymentId !== null)
  expect(first).toMatchObject({ deploymentId: null, servedBy: {}, status: 404, hostname: host })
  expect(second).toMatchObject({ deploymentId: id, servedBy: { deploymentStatus: 'BUILDING' }, status: 404 })
})

describe('a client that leaves', () => {
  test('is logged with what it took', async () => {
    const owner = await newOwner(platform)
    const bytes = 50_000_000
    const content = { content: Buffer.alloc(bytes, 1), contentType: 'application/octet-stream' }
    const { host } = await deploy(platform, owner, { files: { f: content } })
    const { port } = new URL(platform.edgeUrl)
    const sent = request({ port, host: 'localhost', path: '/f', headers: { host }, agent: false }).end()
    const [answer] = (await once(sent, 'response')) as [NodeJS.ReadableStream]
    let received = 0
    for await (const chunk of answer) {
      received += chunk.length
      if (received > 1_000_000) break
    }
    sent.destroy()
    const [row] = await rowsOf(owner.applicationId, 1)
    expect(row).toMatchObject({ status: 200 })
    expect(row?.responseBodyBytes).toBeGreaterThanOrEqual(1_000_000)
    expect(row?.responseBodyBytes).toBeLessThan(bytes)
    expect((row?.bytesSent ?? 0) - (row?.responseBodyBytes ?? 0)).toBeGreaterThan(100)
    expect((row?.bytesSent ?? 0) - (row?.responseBodyBytes ?? 0)).toBeLessThan(1_000)
  })
})

test('pipelined requests are answered in their order, each with its own bytes', async () => {
  const owner = await newOwner(platform)
  const { host } = await deploy(platform, owner, {
    files: { a: 'A'.repeat(300_000), b: 'B'.repeat(1_000), c: 'C'.repeat(20) },
  })
  const get = (path: string, more = '') => `GET ${path} HTTP/1.1\r\nHost: ${host}\r\n${more}\r\n`
  const received = await sendRaw(get('/a') + get('/b') + get('/c', 'Connection: close\r\n'))
  expect(received.match(/HTTP\/1\.1 200/g)).toHaveLength(3)
  expect([
    received.indexOf('AAA') < received.indexOf('BBB'),
    received.indexOf('BBB') < received.indexOf('CCC'),
  ]).toEqual([true, true])
  const rows = await rowsOf(owner.applicationId, 3)
  const total = rows.reduce((sum, { bytesSent }) => sum + bytesSent, 0)
  expect(total).toBe(received.length)
  expect(rows.map(({ responseBodyBytes }) => responseBodyBytes).toSorted((a, b) => a - b)).toEqual([20, 1_000, 300_000])
})

describe('hosts as they come', () => {
  test.each<[string, (host: string) => string, number, string | undefined]>([
    ['plain', (host) => `GET / HTTP/1.1\r\nHost: ${host}`, 200, undefined],
    ['in upper case', (host) => `GET / HTTP/1.1\r\nHost: ${host.toUpperCase()}`, 200, undefined],
    ['with another port', (host) => `GET / HTTP/1.1\r\nHost: ${host.replace(/:\d+/, ':1')}`, 200, undefined],
    ['without a port', (host) => `GET / HTTP/1.1\r\nHost: ${host.replace(/:\d+/, '')}`, 200, undefined],
    ['with the dot at its end', (host) => `GET / HTTP/1.1\r\nHost: ${host.replace(':', '.:')}`, 200, undefined],
    ['in an absolute target', (host) => `GET http://${host}/ HTTP/1.1\r\nHost: other.example`, 200, undefined],
    ['HTTP/1.0', (host) => `GET / HTTP/1.0\r\nHost: ${host}`, 200, undefined],
    ['missing', () => 'GET / HTTP/1.1', 400, 'request_unreadable'],
    ['missing in HTTP/1.0', () => 'GET / HTTP/1.0', 400, 'host_unreadable'],
    ['empty', () => 'GET / HTTP/1.1\r\nHost: ', 400, 'host_unreadable'],
    ['twice', (host) => `GET / HTTP/1.1\r\nHost: ${host}\r\nHost: ${host}`, 400, 'host_unreadable'],
    ['with a user', (host) => `GET / HTTP/1.1\r\nHost: a@${host}`, 400, 'host_unreadable'],
    [
      'a user in an absolute target',
      (host) => `GET http://a@${host}/ HTTP/1.1\r\nHost: ${host}`,
      400,
      'host_unreadable',
    ],
    ['not ASCII', (host) => `GET / HTTP/1.1\r\nHost: ü${host}`, 400, 'host_unreadable'],
    ['an asterisk', (host) => `OPTIONS * HTTP/1.1\r\nHost: ${host}`, 400, 'host_unreadable'],
    ['an IP address', () => 'GET / HTTP/1.1\r\nHost: 127.0.0.1', 404, 'hostname_unknown'],
    ['the domain itself', () => 'GET / HTTP/1.1\r\nHost: localhost', 404, 'hostname_unknown'],
    ['deeper', (host) => `GET / HTTP/1.1\r\nHost: a.${host}`, 404, 'hostname_unknown'],
    ['with an empty label', (host) => `GET / HTTP/1.1\r\nHost: ${host.replace('.', '..')}`, 404, 'hostname_unknown'],
    ['punycode', () => 'GET / HTTP/1.1\r\nHost: xn--bcher-kva.localhost', 404, 'hostname_unknown'],
    ['too long', () => `GET / HTTP/1.1\r\nHost: ${'a'.repeat(64)}.localhost`, 404, 'hostname_unknown'],
    ['far too long', () => `GET / HTTP/1.1\r\nHost: ${'a'.repeat(15_000)}.localhost`, 404, 'hostname_unknown'],
  ])('%s', async (_, head, status, code) => {
    const owner = await newOwner(platform)
    const { host } = await deploy(platform, owner, { files: { 'index.html': 'page' } })
    const received = await sendRaw(`${head(host)}\r\nConnection: close\r\n\r\n`)
    expect(received).toMatch(new RegExp(`^HTTP/1.1 ${status} `))
    expect(/x-platform-error: (.*)\r/.exec(received)?.[1]).toBe(code)
    if (status === 200) expect(received).toContain('page')
  })
})
