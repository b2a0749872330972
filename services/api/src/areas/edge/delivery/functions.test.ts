import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { and, desc, eq, like } from 'drizzle-orm'
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { WebSocket } from 'ws'
import { visit } from '../../../../test/deploy.ts'
import { logOf, newDeployment, untilEnded } from '../../../../test/deployments.ts'
import { buildOutput, type FunctionSource, handler, webSocketEcho } from '../../../../test/functions.ts'
import { exchange, newOwner, type Owner } from '../../../../test/scenario.ts'
import type { ZipEntry } from '../../../../test/zip.ts'
import { environments } from '../../tenancy/applications/table.ts'
import { retireDeployment } from '../../deploy/deployments/retirement.ts'
import { setQuota } from '../../tenancy/products/quotas.ts'
import { requestLogs } from '../../observe/request-logs/table.ts'
import { runtimeLogs } from '../../observe/runtime-logs/table.ts'

let platform: TestPlatform
let ana: Owner
beforeAll(async () => {
  platform = await startPlatform({ hasWorker: true, env: { FUNCTION_FIRST_BYTE_MS: '8000', DEFAULT_PLAN: 'pro' } })
  ana = await newOwner(platform)
})
afterAll(() => platform.close())

/** Deploys an archive and returns its host. */
async function deploy(archive: readonly ZipEntry[]) {
  const { id } = await newDeployment(platform, ana, { archive })
  const deployment = await untilEnded(platform, id)
  if (deployment.status !== 'ACTIVE') throw new Error(`${deployment.failureReason}\n${await logOf(platform, id)}`)
  return { id, host: `${deployment.label}.${platform.api.appsUrl.host}` }
}
/** Deploys an archive that must fail, and returns the reason with its build log, which includes what the Function printed. */
async function refuse(archive: readonly ZipEntry[]): Promise<string> {
  const { id } = await newDeployment(platform, ana, { archive })
  const { status, failureReason } = await untilEnded(platform, id)
  expect(status).toBe('FAILED')
  return `${failureReason}\n${await logOf(platform, id)}`
}
async function ofFunction(
  code: string,
  more?: Omit<FunctionSource, 'code'>,
  config?: Parameters<typeof buildOutput>[1],
) {
  return deploy(buildOutput({ index: { code, ...more } }, { routes: [{ src: '/.*', dest: '/' }], ...config }))
}
/** Answers with the request as the Function saw it. */
const echo = handler(`
  const chunks = []
  for await (const chunk of req) chunks.push(chunk)
  res.setHeader('content-type', 'application/json')
  res.end(JSON.stringify({ method: req.method, url: req.url, headers: req.headers, body: Buffer.concat(chunks).toString() }))`)
const lastLog = (deploymentId: string) =>
  vi.waitFor(
    async () => {
      const [row] = await platform.api.db
        .select()
        .from(requestLogs)
        .where(eq(requestLogs.deploymentId, deploymentId))
        .orderBy(desc(requestLogs.id))
        .limit(1)
      if (!row) throw new Error('Nothing was logged yet')
      return row
    },
    { timeout: 60_000, interval: 20 },
  )

describe('a Function', () => {
  test('gets the request as it was sent, with the addresses of the platform', async () => {
    const { id, host } = await ofFunction(echo)
    const answer = await visit(platform, host, '/a%20b/c?x=1&x=2', {
      method: 'POST',
      body: 'hello',
      headers: { 'content-type': 'text/plain', 'x-own': 'yes', my_header: 'mine', cookie: 'a=b' },
    })
    expect(answer.status).toBe(200)
    const seen = JSON.parse(answer.text) as { headers: Record<string, string> }
    expect(seen).toMatchObject({ method: 'POST', body: 'hello' })
    expect(seen.headers).toMatchObject({
      host,
      'x-forwarded-host': host,
      'x-forwarded-proto': 'http',
      'x-own': 'yes',
      my_header: 'mine',
      cookie: 'a=b',
      'content-length': '5',
    })
    expect(seen.headers['x-forwarded-for']).toMatch(/^(127\.0\.0\.1|::1)$/)
    expect(seen.headers['x-real-ip']).toBe(seen.headers['x-forwarded-for'])
    const row = await lastLog(id)
    expect(seen.headers['x-request-id']).toBe(row.id)
    expect(row).toMatchObject({
      method: 'POST',
      path: '/a%20b/c',
      status: 200,
      cacheStatus: 'bypass',
      requestBodyBytes: 5,
      responseBodyBytes: answer.body.length,
      servedBy: { deploymentFunction: { name: 'index', path: '/index' }, deploymentStatus: 'ACTIVE' },
    })
    expect(row.bytesSent).toBeGreaterThan(answer.body.length)
  })

  test('sees the host as its hostname is spelled, however a client spells it', async () => {
    const { host } = await shared()
    const answer = await visit(platform, host.toUpperCase(), '/')
    expect((JSON.parse(answer.text) as { headers: Record<string, string> }).headers).toMatchObject({
      host,
      'x-forwarded-host': host,
    })
  })

  test('has the environment that frameworks look for, with its own on top, as it was when it was deployed (D97)', async () => {
    const owner = await newOwner(platform)
    const variables = `/applications/${owner.applicationId}/env-vars`
    const set = async (key: string, value: string, more = {}) =>
      (await platform.call(owner.token, `POST ${variables}`, { key, value, ...more })).body as { id: string }
    const { id: level } = await set('LEVEL', 'old')
    await set('OF_PREVIEW', 'x', { environment: 'preview' })
    await set('VERCEL_REGION', 'mine')
    const label = `env-${Date.now().toString(36)}z`
    expect(
      (await platform.call(owner.token, `PUT /applications/${owner.applicationId}/hostname`, { label })).status,
    ).toBe(200)
    const code = handler(`if (req.url === '/exit') process.exit(1)
      const { PATH, PLATFORM_API_URL, PLATFORM_CLIENT_ID, PLATFORM_CLIENT_SECRET, ...own } = process.env
      // Whether these are there depends on the machine.
      for (const name of ['NODE_EXTRA_CA_CERTS', 'SSL_CERT_FILE', 'GIT_SSL_CAINFO']) delete own[name]
      res.end(JSON.stringify(own))`)
    const archive = buildOutput(
      { index: { code, config: { environment: { OF_BUILD: 'built', LEVEL: 'of the build' } } } },
      { routes: [{ src: '/.*', dest: '/' }] },
    )
    const { id } = await newDeployment(platform, owner, { archive })
    const deployed = await untilEnded(platform, id)
    const { host: apps } = platform.api.appsUrl
    const expected = {
      HOME: '/tmp',
      LANG: 'C.UTF-8',
      LEVEL: 'old',
      NODE_ENV: 'production',
      OF_BUILD: 'built',
      PLATFORM_APPLICATION_ID: owner.applicationId,
      PLATFORM_DEPLOYMENT_ID: id,
      PLATFORM_ENVIRONMENT: 'production',
      TMPDIR: '/tmp',
      VERCEL: '1',
      VERCEL_DEPLOYMENT_ID: id,
      VERCEL_ENV: 'production',
      VERCEL_PROJECT_PRODUCTION_URL: `${label}.${apps}`,
      VERCEL_REGION: 'mine',
      VERCEL_URL: `${deployed.label}.${apps}`,
    }
    const host = `${deployed.label}.${apps}`
    expect(JSON.parse((await visit(platform, host, '/')).text)).toEqual(expected)
    expect((await platform.call(owner.token, `PATCH ${variables}/${level}`, { value: 'new' })).status).toBe(200)
    // A new process of the same deployment.
    expect((await visit(platform, host, '/exit')).status).toBe(502)
    expect(JSON.parse((await visit(platform, host, '/')).text)).toEqual(expected)
  })

  test('has the memory that its build asks for, up to what the plan allows', async () => {
    const owner = await newOwner(platform)
    await setQuota(platform.api, owner.organizationId, 'function_memory_mb', 256)
    const heapOf = async (memory: number) => {
      const code = handler(`res.end(process.execArgv.join())`)
      const archive = buildOutput({ index: { code, config: { memory } } }, { routes: [{ src: '/.*', dest: '/' }] })
      const { label } = await untilEnded(platform, (await newDeployment(platform, owner, { archive })).id)
      return (await visit(platform, `${label}.${platform.api.appsUrl.host}`, '/')).text
    }
    expect(await heapOf(128)).toBe('--max-old-space-size=80')
    expect(await heapOf(3_008)).toBe('--max-old-space-size=192')
  })

  test.each([
    'x-middleware-subrequest',
    'x-middleware-prefetch',
    'x-vercel-id',
    'x-now-route-matches',
    'x-matched-path',
    'x-invoke-path',
    'x-invocation-id',
    'x-nextjs-data',
    'x-next-resume-state-length',
    'x-astro-path',
    'x-sticky-restarted',
    'x-prerender-revalidate',
    'x-forwarded-port',
    'forwarded',
    'next-resume',
    'te',
    'x-platform-deployment',
    'X_Forwarded_For',
    'x_real-ip',
    'x_vercel_id',
    'x_request_id',
  ])('never sees %s of a client', async (name) => {
    const { host } = await shared()
    const answer = await visit(platform, host, '/', { headers: { [name]: 'spoofed' } })
    expect(answer.status).toBe(200)
    expect(answer.text).not.toContain('spoofed')
  })
  let sharing: ReturnType<typeof ofFunction> | undefined
  const shared = () => (sharing ??= ofFunction(echo))

  test('answers as it likes, but for headers of the connection, the platform and other hosts', async () => {
    const { host } = await ofFunction(
      handler(`
      res.statusCode = 418
      res.setHeader('set-cookie', ['a=1', 'b=2; Domain=' + req.headers.host.split(':')[0], 'c=3; Domain=example.com'])
      res.setHeader('x-next-cache-tags', 'secret')
      res.setHeader('x-middleware-next', '1')
      res.setHeader('x-own', 'yes')
      res.end('teapot')`),
    )
    const answer = await visit(platform, host, '/')
    expect(answer).toMatchObject({ status: 418, text: 'teapot' })
    expect(answer.headers['set-cookie']).toEqual(['a=1', `b=2; Domain=${host.split(':')[0]}`])
    expect(answer.headers).toMatchObject({ 'x-own': 'yes', 'x-cache': 'BYPASS' })
    expect(answer.headers).not.toHaveProperty('x-next-cache-tags')
    expect(answer.headers).not.toHaveProperty('x-middleware-next')
  })

  test('streams both ways: each piece arrives before the next is sent', async () => {
    const { host } = await ofFunction(
      handler(`
      res.writeHead(200, { 'content-type': 'text/plain' })
      for await (const chunk of req) res.write('got ' + chunk)
      res.end('bye')`),
    )
    const { port } = new URL(platform.edgeUrl)
    const sent = request({ port, host: 'localhost', method: 'POST', headers: { host } })
    sent.write('one')
    const [answer] = (await once(sent, 'response')) as [IncomingMessage]
    expect(String((await once(answer, 'data'))[0])).toBe('got one')
    sent.write('two')
    expect(String((await once(answer, 'data'))[0])).toBe('got two')
    sent.end()
    expect(String((await once(answer, 'data'))[0])).toBe('bye')
  })

  test('sends events, and ends when its client leaves', async () => {
    const { host } = await ofFunction(
      handler(`
      globalThis.left ??= 0
      if (req.url === '/left') return res.end(String(globalThis.left))
      res.writeHead(200, { 'content-type': 'text/event-stream' })
      let n = 0
      const timer = setInterval(() => res.write('data: ' + n++ + '\\n\\n'), 20)
      res.on('close', () => { clearInterval(timer); globalThis.left++ })`),
    )
    const { port } = new URL(platform.edgeUrl)
    const sent = request({ port, host: 'localhost', headers: { host } }).end()
    const [answer] = (await once(sent, 'response')) as [IncomingMessage]
    let received = ''
    for await (const chunk of answer) {
      received += String(chunk)
      if (received.includes('data: 5\n\n')) break
    }
    expect(received).toMatch(/^data: 0\n\ndata: 1\n\n/)
    sent.destroy()
    await vi.waitFor(async () => expect((await visit(platform, host, '/left')).text).toBe('1'), { timeout: 60_000 })
  })

  test('HEAD has the head alone, and 304 no body', async () => {
    const { host } = await ofFunction(
      handler(`
      if (req.url === '/304') { res.writeHead(304, { etag: '"a"' }); return res.end() }
      res.setHeader('content-length', '5'); res.end(req.method === 'HEAD' ? undefined : 'hello')`),
    )
    const head = await visit(platform, host, '/', { method: 'HEAD' })
    expect([head.status, head.headers['content-length'], head.text]).toEqual([200, '5', ''])
    const unchanged = await visit(platform, host, '/304')
    expect([unchanged.status, unchanged.headers.etag, unchanged.text]).toEqual([304, '"a"', ''])
  })

  test('speaks WebSocket, and the log has what went through it', async () => {
    const { id, host } = await ofFunction(webSocketEcho())
    const { port } = new URL(platform.edgeUrl)
    const socket = new WebSocket(`ws://localhost:${port}/chat`, { headers: { host } })
    await once(socket, 'open')
    for (const text of ['hello', 'again']) {
      socket.send(text)
      expect(String((await once(socket, 'message'))[0])).toBe(text)
    }
    socket.close()
    await once(socket, 'close')
    expect(await lastLog(id)).toMatchObject({ status: 101, path: '/chat', requestBodyBytes: 28, responseBodyBytes: 16 })
    expect((await visit(platform, host, '/')).text).toBe('plain')
  })
})

describe('middleware', () => {
  const web = { useWebApi: true }
  const middleware = `export default function (request) {
    const { pathname } = new URL(request.url)
    const next = { 'x-middleware-next': '1' }
    switch (pathname) {
      case '/next': return new Response(null, { headers: { ...next, 'x-added': 'yes', 'set-cookie': 'm=1' } })
      case '/changed': return new Response(null, { headers: {
        ...next, 'x-middleware-override-headers': 'host,x-new', 'x-middleware-request-x-new': 'set', 'x-middleware-request-host': request.headers.get('host') } })
      case '/old': return new Response(null, { headers: { 'x-middleware-rewrite': new URL('/new?from=old', request.url).href } })
      case '/away': return Response.redirect(new URL('/there', request.url), 307)
      case '/own': return new Response('from the middleware', { status: 403, headers: { 'x-own': 'yes' } })
      case '/crash': process.exit(3)
      case '/static.txt': return new Response(null, { headers: { ...next, 'x-added': 'static' } })
    }
    return new Response(null, { headers: next })
  }`
  let host: string
  beforeAll(async () => {
    const archive = buildOutput(
      { _middleware: { code: middleware, config: web }, page: echo },
      {
        files: { 'static.txt': 'static' },
        routes: [
          { src: '/.*', middlewarePath: '_middleware', continue: true },
          { handle: 'filesystem' },
          { src: '/.*', dest: '/page' },
        ],
      },
    )
    host = (await deploy(archive)).host
  })

  test('lets a request go on, and adds headers to its answer', async () => {
    const answer = await visit(platform, host, '/next')
    expect(answer).toMatchObject({ status: 200, headers: { 'x-added': 'yes', 'set-cookie': ['m=1'] } })
    expect(JSON.parse(answer.text)).toMatchObject({ url: '/next' })
    expect(await visit(platform, host, '/static.txt')).toMatchObject({
      text: 'static',
      headers: { 'x-added': 'static' },
    })
  })
  test('changes the headers that a Function sees', async () => {
    const { headers } = JSON.parse(
      (await visit(platform, host, '/changed', { headers: { 'x-old': 'there' } })).text,
    ) as {
      headers: Record<string, string>
    }
    expect(headers).toMatchObject({ 'x-new': 'set', host })
    expect(headers).not.toHaveProperty('x-old')
  })
  test('rewrites, redirects, and answers by itself', async () => {
    expect(JSON.parse((await visit(platform, host, '/old')).text)).toMatchObject({ url: '/new?from=old' })
    expect(await visit(platform, host, '/away')).toMatchObject({
      status: 307,
      headers: { location: `http://${host}/there` },
    })
    expect(await visit(platform, host, '/own')).toMatchObject({
      status: 403,
      text: 'from the middleware',
      headers: { 'x-own': 'yes' },
    })
  })
  test.each(['/_middleware', '/%6fwn', '//own', '/x/../own'])('is not passed by as %s', async (path) => {
    const answer = await visit(platform, host, path)
    if (path === '/_middleware') expect(JSON.parse(answer.text)).toMatchObject({ url: '/_middleware' })
    else expect(answer).toMatchObject({ status: 403 })
  })
  test('passes the body on to what answers', async () => {
    expect(JSON.parse((await visit(platform, host, '/next', { method: 'POST', body: 'whole' })).text)).toMatchObject({
      body: 'whole',
    })
  })
  test('that crashes is a 502', async () => {
    expect(await visit(platform, host, '/crash')).toMatchObject({
      status: 502,
      headers: { 'x-platform-error': 'function_crashed' },
    })
    expect((await visit(platform, host, '/next')).status).toBe(200)
  })
})

describe('what is kept of answers', () => {
  // Each answer is different, so equal ones show that the second came from the cache.
  const counting = handler(`
    const url = new URL(req.url, 'http://a')
    for (const [name, value] of url.searchParams) if (name.startsWith('h-')) res.setHeader(name.slice(2), value.split('|'))
    res.statusCode = Number(url.searchParams.get('status') ?? 200)
    res.end(String(globalThis.n = (globalThis.n ?? 0) + 1) + (req.headers.cookie ?? ''))`)
  let host: string
  beforeAll(async () => {
    host = (await ofFunction(counting)).host
  })
  let addresses = 0
  const address = (headers: Record<string, string>, more = '') =>
    `/${addresses++}?${Object.entries(headers)
      .map(([name, value]) => `h-${name}=${encodeURIComponent(value)}`)
      .join('&')}${more}`
  const shared = { 'cache-control': 's-maxage=60' }

  test('an answer with s-maxage is kept for everyone, and says so', async () => {
    const path = address({ ...shared, etag: '"v1"', 'x-own': 'yes' })
    const first = await visit(platform, host, path)
    expect(first.headers['x-cache']).toBe('MISS')
    const second = await visit(platform, host, path)
    expect(second).toMatchObject({
      text: first.text,
      headers: { 'x-cache': 'HIT', age: '0', 'x-own': 'yes', 'cache-control': 's-maxage=60' },
    })
    expect(await visit(platform, host, path, { method: 'HEAD' })).toMatchObject({
      text: '',
      headers: { 'x-cache': 'HIT', 'content-length': '1' },
    })
    expect(await visit(platform, host, path, { headers: { 'if-none-match': 'W/"v1"' } })).toMatchObject({
      status: 304,
      text: '',
    })
  })

  test('the log tells hits from misses', async () => {
    const { id, host } = await ofFunction(counting)
    const path = address(shared)
    for (const cacheStatus of ['miss', 'hit']) {
      await visit(platform, host, path)
      await vi.waitFor(async () => expect(await lastLog(id)).toMatchObject({ cacheStatus }), { timeout: 60_000 })
    }
  })

  test.each<[string, Record<string, string>, string?]>([
    ['says nothing of it', {}],
    ['is for a time of browsers alone', { 'cache-control': 'max-age=60' }],
    ['sets a cookie', { ...shared, 'set-cookie': 'a=1' }],
    ['is private', { 'cache-control': 'private, s-maxage=60' }],
    ['is private to a CDN too', { 'cache-control': 'private', 'cdn-cache-control': 'max-age=60' }],
    ['must not be stored', { 'cache-control': 's-maxage=60, no-store' }],
    ['must be asked for each time', { 'cache-control': 's-maxage=60, no-cache' }],
    ['varies by everything', { ...shared, vary: 'accept, *' }],
    ['is an error', shared, '&status=500'],
    ['is a redirect for now', shared, '&status=302'],
    ['is refused', shared, '&status=403'],
    ['is a part', shared, '&status=206'],
    ['is over at once', { 'cache-control': 's-maxage=0' }],
    ['was old already', { ...shared, age: '61' }],
  ])('an answer that %s is not kept', async (_, headers, more) => {
    const path = address(headers, more)
    const first = await visit(platform, host, path)
    const second = await visit(platform, host, path)
    expect(second.text).not.toBe(first.text)
    expect([first.headers['x-cache'], second.headers['x-cache']]).toEqual(['BYPASS', 'BYPASS'])
  })

  test.each<[string, { method?: string; headers?: Record<string, string> }]>([
    ['with Authorization', { headers: { authorization: 'Bearer a' } }],
    ['with Range', { headers: { range: 'bytes=0-0' } }],
    ['by POST', { method: 'POST' }],
    ['in draft mode', { headers: { cookie: '__prerender_bypass=x' } }],
  ])('a request %s neither takes nor leaves an answer', async (_, options) => {
    const path = address(shared)
    const first = await visit(platform, host, path, options)
    const second = await visit(platform, host, path)
    const third = await visit(platform, host, path, options)
    expect(new Set([first.text, second.text, third.text]).size).toBe(3)
    expect([first, second, third].map(({ headers }) => headers['x-cache'])).toEqual(['BYPASS', 'MISS', 'BYPASS'])
  })

  test('answers differ by the headers that Vary names, by query and by hostname', async () => {
    const path = address({ ...shared, vary: 'Accept-Language, x-b' })
    const of = async (headers: Record<string, string>, text = path) =>
      (await visit(platform, host, text, { headers })).text
    const german = await of({ 'accept-language': 'de' })
    expect(await of({ 'accept-language': 'de' })).toBe(german)
    expect(await of({ 'accept-language': 'fr' })).not.toBe(german)
    expect(await of({ 'accept-language': 'de', 'x-b': '1' })).not.toBe(german)
    expect(await of({ 'accept-language': 'de' }, `${path}&x=1`)).not.toBe(german)
    expect(await of({ 'accept-language': 'de' })).toBe(german)
    const other = await visit(platform, (await ofFunction(counting)).host, path, {
      headers: { 'accept-language': 'de' },
    })
    expect(other.headers['x-cache']).toBe('MISS')
  })

  test('of one visitor, nothing that Vary: Cookie names reaches another', async () => {
    const path = address({ ...shared, vary: 'cookie' })
    const as = async (cookie: string) => (await visit(platform, host, path, { headers: { cookie } })).text
    expect(await as('user=ana')).toContain('user=ana')
    expect(await as('user=bob')).not.toContain('ana')
  })

  test('CDN-Cache-Control counts before Cache-Control, and 404 is kept where it asks to be', async () => {
    const kept = address({ 'cache-control': 'max-age=0', 'cdn-cache-control': 'max-age=60' }, '&status=404')
    expect((await visit(platform, host, kept)).headers['x-cache']).toBe('MISS')
    expect(await visit(platform, host, kept)).toMatchObject({ status: 404, headers: { 'x-cache': 'HIT' } })
    const not = address({ ...shared, 'cdn-cache-control': 'no-store' })
    await visit(platform, host, not)
    expect((await visit(platform, host, not)).headers['x-cache']).toBe('BYPASS')
  })

  test('what is stale is given once more while it is renewed, without the cookies of whoever asked', async () => {
    const path = address({ 'cache-control': 's-maxage=1, stale-while-revalidate=60' })
    const first = await visit(platform, host, path, { headers: { cookie: 'secret=1' } })
    const cookie = 'other=2'
    const stale = await vi.waitFor(
      async () => {
        const answer = await visit(platform, host, path, { headers: { cookie } })
        expect(answer.headers['x-cache']).toBe('STALE')
        return answer
      },
      { timeout: 60_000, interval: 100 },
    )
    expect(stale.text).toBe(first.text)
    await vi.waitFor(
      async () => {
        const renewed = await visit(platform, host, path, { headers: { cookie } })
        expect(renewed.text).not.toBe(first.text)
        expect(renewed.text).not.toContain('other')
      },
      { timeout: 60_000 },
    )
  })
})

test('a stale answer whose renewal may not be kept is shown no more', async () => {
  const { host } = await ofFunction(
    `let calls = 0\n${handler(`
    res.setHeader('cache-control', ++calls === 1 ? 's-maxage=1, stale-while-revalidate=600' : 'private')
    res.end(String(calls))`)}`,
  )
  expect((await visit(platform, host, '/')).text).toBe('1')
  await vi.waitFor(async () => expect((await visit(platform, host, '/')).headers['x-cache']).toBe('BYPASS'), {
    timeout: 60_000,
    interval: 50,
  })
})

describe('a Function that fails', () => {
  const failing = `
    import { createServer } from 'node:http'
    export default function (req, res) {
      if (req.url === '/exit') process.exit(7)
      if (req.url === '/throw') setTimeout(() => { throw new Error('thrown') })
      if (req.url === '/loop') for (;;);
      if (req.url === '/never') return
      if (req.url === '/heap') { const kept = []; for (;;) kept.push({ a: new Array(1e4).fill(1.5) }) }
      if (req.url === '/stream') { res.write('begun'); setTimeout(() => process.exit(1), 50); return }
      if (req.url === '/ok') res.end('ok')
    }`
  let id: string
  let host: string
  beforeAll(async () => {
    ;({ id, host } = await ofFunction(failing, { config: { memory: 128 } }))
  })
  const blockedLines = () =>
    platform.api.db.$count(
      runtimeLogs,
      and(eq(runtimeLogs.deploymentId, id), like(runtimeLogs.message, 'Stopped: it blocked its event loop%')),
    )

  test.each([
    ['/exit', 502, 'function_crashed'],
    ['/throw', 502, 'function_crashed'],
    ['/never', 504, 'function_timeout'],
    ['/heap', 507, 'function_out_of_memory'],
    ['/loop', 504, 'function_timeout'],
  ])('%s is %i %s, with a page, the id of the request, and is well again', async (path, status, code) => {
    const answer = await visit(platform, host, path)
    expect(answer).toMatchObject({ status, headers: { 'x-platform-error': code, 'cache-control': 'no-store' } })
    expect(answer.headers['x-request-id']).toMatch(/^[0-9a-f-]{36}$/)
    expect(answer.text).toContain('<h1>')
    // The answer can come before the end of the slot that the loop blocks.
    if (path === '/loop') await expect.poll(blockedLines, { interval: 50 }).toBeGreaterThan(0)
    if (path === '/heap') {
      const beside = eq(runtimeLogs.requestId, String(answer.headers['x-request-id']))
      const lines = () => platform.api.db.select().from(runtimeLogs).where(beside)
      const message = expect.stringMatching(/^It used more than its 128 MB of memory: /) as string
      await expect.poll(lines, { interval: 50 }).toMatchObject([{ level: 'ERROR', message }])
    }
    expect(await visit(platform, host, '/ok')).toMatchObject({ status: 200, text: 'ok' })
  })

  test('to take more requests is a 503 that says when to come again, and those that it has are answered', async () => {
    const owner = await newOwner(platform)
    await setQuota(platform.api, owner.organizationId, 'function_slots', 1)
    // Once one of the waiting clients leaves, all others are answered.
    const waiting = handler(`
      const all = (globalThis.all ??= new Set()).add(res)
      if (all.size === 200) console.log('200 wait')
      res.on('close', () => { all.delete(res); for (const each of all) each.end('answered') })`)
    const archive = buildOutput({ index: { code: waiting } }, { routes: [{ src: '/.*', dest: '/' }] })
    const { id } = await newDeployment(platform, owner, { archive })
    const { label } = await untilEnded(platform, id)
    const { port } = new URL(platform.edgeUrl)
    const headers = { host: `${label}.${platform.api.appsUrl.host}` }
    const clientRequest = Array.from({ length: 205 }, () => request({ port, host: 'localhost', headers }).end())
    const answers: IncomingMessage[] = []
    const waits = new Set(clientRequest)
    for (const each of clientRequest)
      each
        .on('error', () => {})
        .on('response', (answer: IncomingMessage) => {
          answers.push(answer)
          waits.delete(each)
        })
    await vi.waitFor(() => expect(answers).toHaveLength(5), { timeout: 60_000, interval: 20 })
    for (const { statusCode, headers: received } of answers)
      expect([statusCode, received['x-platform-error'], received['retry-after']]).toEqual([
        503,
        'function_overloaded',
        '1',
      ])
    const logged = async () => {
      await platform.api.runtimeLog.flush()
      const lines = await platform.api.db.select().from(runtimeLogs).where(eq(runtimeLogs.deploymentId, id))
      return lines
        .toSorted((a, b) => a.level.localeCompare(b.level))
        .map(({ level, message }) => [level, ...message.split(':', 2)])
    }
    // Only now has the Function seen the client that will leave.
    await vi.waitFor(async () => expect(await logged()).toContainEqual(['INFO', '200 wait']), {
      timeout: 60_000,
      interval: 20,
    })
    expect(await logged()).toEqual([
      ['INFO', '200 wait'],
      ['WARN', 'Refused a request', ' Each of its 1 slots has 200 requests under way'],
    ])
    waits.values().next().value?.destroy()
    await vi.waitFor(() => expect(answers).toHaveLength(204), { timeout: 60_000, interval: 20 })
    expect(answers.slice(5).every(({ statusCode }) => statusCode === 200)).toBe(true)
    for (const each of clientRequest) each.destroy()
  })

  test('in the middle of an answer cuts it off, so that nobody takes it for whole', async () => {
    await expect(visit(platform, host, '/stream')).rejects.toThrow(/aborted/)
    expect(await visit(platform, host, '/ok')).toMatchObject({ status: 200 })
  })

  test.each<[string, string, Omit<FunctionSource, 'code'>, RegExp]>([
    ['a syntax error', 'export default (', {}, /index cannot be started.*SyntaxError/s],
    ['a missing module', `import 'left-pad'\nexport default () => {}`, {}, /Cannot find package 'left-pad'/],
    ['no handler', 'export const a = 1', {}, /index cannot be started/],
    ['an exit at its start', 'process.exit(2)', {}, /index cannot be started/],
  ])('with %s never becomes active', async (_, code, more, reason) => {
    expect(await refuse(buildOutput({ index: { code, ...more } }))).toMatch(reason)
  })

  test('at its start shows no secret of what it throws', async () => {
    const shown = await refuse(
      buildOutput({ index: `throw new Error('x'.repeat(950) + ' ' + process.env.PLATFORM_CLIENT_SECRET + ' end')` }),
    )
    expect(shown).toContain('index cannot be started')
    expect(shown).toContain('x [redacted] end')
    expect(shown).not.toContain('svc_secret_')
  })

  test('and would not be met by the first visitors is not tried: middleware, what / leads to, three at most', async () => {
    const code = (name: string) => handler(`res.setHeader('x-middleware-next', '1'); res.end('${name}')`)
    const functions = Object.fromEntries(['m1', 'm2', 'home', 'other'].map((name) => [name, code(name)]))
    const tried = async (middleware: string[]) => {
      const routes = [
        ...middleware.map((path) => ({ src: '/.*', middlewarePath: path, continue: true })),
        { src: '/', dest: '/home' },
        { src: '/.*', dest: '/other' },
      ]
      const { id } = await deploy(buildOutput(functions, { routes }))
      return [...(await logOf(platform, id)).matchAll(/Started the Function (\w+)/g)].map(([, name]) => name)
    }
    expect(await tried(['m1', 'm2'])).toEqual(['m1', 'm2', 'home'])
    expect(await tried(['m1', 'm2', 'other'])).toEqual(['m1', 'm2', 'other'])
    expect(await tried([])).toEqual(['home'])
  })
})

describe('other ways to answer', () => {
  test('a worker has its variables, its files and waitUntil', async () => {
    const { host } = await deploy([
      {
        name: '_worker.js',
        content: `export default { async fetch(request, env, ctx) {
          const { pathname } = new URL(request.url)
          if (pathname === '/env') return Response.json({ id: env.PLATFORM_DEPLOYMENT_ID, isProcess: process.env.PLATFORM_DEPLOYMENT_ID === env.PLATFORM_DEPLOYMENT_ID })
          if (pathname === '/later') { ctx.waitUntil(new Promise((resolve) => setTimeout(() => { globalThis.done = 'done'; resolve() }, 50))); return new Response('soon') }
          if (pathname === '/done') return new Response(globalThis.done ?? 'not yet')
          const file = await env.ASSETS.fetch(request)
          return new Response(await file.text(), { status: file.status, headers: { ...Object.fromEntries(file.headers), 'x-worker': '1' } })
        } }`,
      },
      { name: '_routes.json', content: '{"version":1,"include":["/*"],"exclude":["/plain.txt"]}' },
      { name: 'about.html', content: '<h1>About</h1>' },
      { name: 'plain.txt', content: 'plain' },
    ])
    const own = (await visit(platform, host, '/env')).text
    expect(JSON.parse(own)).toMatchObject({ id: expect.stringMatching(/^[0-9a-f-]{36}$/) as string, isProcess: true })
    const about = await visit(platform, host, '/about')
    expect(about).toMatchObject({ status: 200, text: '<h1>About</h1>' })
    expect(about.headers).toMatchObject({ 'x-worker': '1', 'content-type': 'text/html; charset=utf-8' })
    expect(await visit(platform, host, '/gone')).toMatchObject({ status: 404 })
    const plain = await visit(platform, host, '/plain.txt')
    expect(plain.text).toBe('plain')
    expect(plain.headers).not.toHaveProperty('x-worker')
    expect((await visit(platform, host, '/later')).text).toBe('soon')
    await vi.waitFor(async () => expect((await visit(platform, host, '/done')).text).toBe('done'), { timeout: 60_000 })
  })

  test('a worker that needs what only Cloudflare has is refused by name', async () => {
    expect(
      await refuse([{ name: '_worker.js', content: `import 'cloudflare:sockets'\nexport default { fetch() {} }` }]),
    ).toMatch(/cloudflare:sockets/)
  })

  test('a Function that asks for the helpers of Vercel has them', async () => {
    const code = `export default (req, res) => {
      if (req.query.to) return res.redirect(req.query.to)
      if (req.query.page) return res.status(201).send('<p>' + req.cookies.name + '</p>')
      res.status(202).json({ query: req.query, body: req.body })
    }`
    const { host } = await ofFunction(code, { config: { shouldAddHelpers: true } })
    const post = (path: string, body: string, type: string) =>
      visit(platform, host, path, { method: 'POST', body, headers: { 'content-type': type } })
    const json = await post('/?a=1&a=2&b=3', '{"c":4}', 'application/json')
    expect(json).toMatchObject({ status: 202, headers: { 'content-type': 'application/json; charset=utf-8' } })
    expect(JSON.parse(json.text)).toEqual({ query: { a: ['1', '2'], b: '3' }, body: { c: 4 } })
    const form = await post('/', 'd=5&e=%20', 'application/x-www-form-urlencoded')
    expect(JSON.parse(form.text)).toEqual({ query: {}, body: { d: '5', e: ' ' } })
    expect(await post('/', '{', 'application/json')).toMatchObject({ status: 400, text: 'Invalid JSON' })
    expect(await post('/', 'x'.repeat(5_000_000), 'text/plain')).toMatchObject({ status: 413 })
    expect(await visit(platform, host, '/?page=1', { headers: { cookie: 'name=ana%20b; x=y' } })).toMatchObject({
      status: 201,
      text: '<p>ana b</p>',
      headers: { 'content-type': 'text/html; charset=utf-8' },
    })
    expect(await visit(platform, host, '/?to=/there')).toMatchObject({ status: 307, headers: { location: '/there' } })
  })

  test('an edge Function', async () => {
    const { host } = await deploy(
      buildOutput({
        edge: {
          code: `export default async (request, ctx) => new Response(await request.text() + ' ' + typeof ctx.waitUntil, { status: 201 })`,
          config: { runtime: 'edge', entrypoint: 'index.mjs', handler: undefined, launcherType: undefined },
        },
      }),
    )
    expect(await visit(platform, host, '/edge', { method: 'POST', body: 'hi' })).toMatchObject({
      status: 201,
      text: 'hi function',
    })
  })

  test.each([
    ['imported', [{ name: 'package.json', content: '{"type":"module","scripts":{"start":"node server.mjs"}}' }]],
    [
      'started by a script',
      [{ name: 'package.json', content: '{"type":"module","scripts":{"start":"A=1 node server.mjs"}}' }],
    ],
  ])('a Node server that is %s', async (_, entries) => {
    const { id, host } = await deploy([
      ...entries,
      {
        name: 'server.mjs',
        content: `import { createServer } from 'node:http'
          createServer((req, res) => res.end(req.method + ' ' + req.url + ' ' + req.headers.host)).listen(process.env.PORT)`,
      },
    ])
    expect((await visit(platform, host, '/a?b')).text).toBe(`GET /a?b ${host}`)
    expect(await logOf(platform, id)).toMatch(/INFO Found a Node server: .*server\.mjs/)
  })
})

describe('the platform from inside', () => {
  // Without configuration: gets a token for its own credential, and writes and reads an object.
  const usesStorage = `
    const { PLATFORM_API_URL: api, PLATFORM_APPLICATION_ID: application, PLATFORM_CLIENT_ID: id, PLATFORM_CLIENT_SECRET: secret } = process.env
    const tokenOf = async () => {
      const answer = await fetch(api + '/oauth2/token', { method: 'POST', body: new URLSearchParams({ grant_type: 'client_credentials', client_id: id, client_secret: secret }) })
      return (await answer.json()).access_token
    }
    export default async function (req, res) {
      const authorization = 'Bearer ' + await tokenOf()
      const call = async (path, options = {}) => {
        const answer = await fetch(api + path, { ...options, headers: { authorization, ...options.headers } })
        return { status: answer.status, body: await answer.text() }
      }
      const { searchParams } = new URL(req.url, 'http://a')
      const environment = searchParams.get('environment')
      const query = environment ? '?environment=' + environment : ''
      const listed = await call('/applications/' + application + '/storage/buckets' + query)
      const read = searchParams.get('bucket') && await call('/s3/' + searchParams.get('bucket') + '/hello.txt')
      console.log('listed', listed.status)
      console.log(secret)
      res.end(JSON.stringify({ listed, read, environment: process.env.PLATFORM_ENVIRONMENT }))
    }`

  test('a Function reads the storage of its own environment, and of no other', async () => {
    const base = `/applications/${ana.applicationId}/storage/buckets`
    for (const environment of ['production', 'preview']) {
      const made = await platform.call(ana.token, `POST ${base}`, { name: `own-${environment}`, environment })
      expect(made.status).toBe(201)
    }
    const { id: keyId, secret } = (
      await platform.call(ana.token, 'POST /api-keys', {
        name: 'writer',
        applicationId: ana.applicationId,
        scopes: ['network:storage:write'],
      })
    ).body as { id: string; secret: string }
    const { access_token: token } = (await exchange(platform, keyId, secret)).body as { access_token: string }
    const put = await fetch(`${platform.apiUrl}/s3/own-production/hello.txt`, {
      method: 'PUT',
      headers: { authorization: `Bearer ${token}` },
      body: 'hello from a bucket',
    })
    expect(put.status).toBe(200)

    // A second request would start a second slot if it came before the first one's end.
    await setQuota(platform.api, ana.organizationId, 'function_slots', 1)
    onTestFinished(() => setQuota(platform.api, ana.organizationId, 'function_slots', null))
    const { id, host } = await ofFunction(usesStorage)
    const own = JSON.parse((await visit(platform, host, '/?bucket=own-production')).text) as Record<
      string,
      { status: number; body: string }
    >
    expect(own.environment).toBe('production')
    expect(own.read).toEqual({ status: 200, body: 'hello from a bucket' })
    expect(JSON.parse(own.listed?.body ?? '')).toMatchObject({ items: [{ name: 'own-production' }], total: 1 })
    const other = JSON.parse(
      (await visit(platform, host, '/?environment=preview&bucket=preview.own-preview')).text,
    ) as typeof own
    expect([other.listed?.status, other.read?.status]).toEqual([403, 403])

    // Its output is in the log, by request, without its secret.
    const lines = await vi.waitFor(
      async () => {
        const answer = await platform.call(ana.token, `GET /deployments/${id}/runtime-logs?search=listed`)
        const { items } = answer.body as {
          items: { message: string; requestId: string; functionName: string; slot: number }[]
        }
        expect(items).toHaveLength(2)
        return items
      },
      { timeout: 60_000, interval: 50 },
    )
    expect(lines[0]).toMatchObject({ message: 'listed 403', functionName: 'index', slot: 0, level: 'INFO' })
    await vi.waitFor(async () => {
      const path = `/applications/${ana.applicationId}/requests/${lines[0]?.requestId}`
      expect(await platform.call(ana.token, `GET ${path}`)).toMatchObject({
        status: 200,
        body: { deploymentFunction: { name: 'index' } },
      })
    }, 60_000)
    const all = await platform.call(ana.token, `GET /deployments/${id}/runtime-logs?requestId=${lines[0]?.requestId}`)
    expect((all.body as { items: { message: string }[] }).items.map(({ message }) => message)).toContain('[redacted]')
    const functions = await vi.waitFor(
      async () => {
        const answer = await platform.call(ana.token, `GET /deployments/${id}/functions`)
        const { items } = answer.body as { items: { requests: number }[] }
        expect(items[0]?.requests).toBe(2)
        return items
      },
      { timeout: 60_000, interval: 100 },
    )
    expect(functions).toMatchObject([{ path: 'index', slots: 1, coldStarts: 1 }])
  })

  test('a line that is cut within a secret shows nothing of it', async () => {
    const { id, host } = await ofFunction(
      handler(`console.log(process.env.PLATFORM_CLIENT_SECRET.repeat(400)); res.end('printed')`),
    )
    expect((await visit(platform, host, '/')).text).toBe('printed')
    const { message } = await vi.waitFor(
      async () => {
        const [line] = await platform.api.db.select().from(runtimeLogs).where(eq(runtimeLogs.deploymentId, id))
        if (!line) throw new Error('Nothing was printed yet')
        return line
      },
      { timeout: 60_000, interval: 20 },
    )
    expect(message).toMatch(/^(\[redacted\])+ … \(cut\)$/)
  })

  test('what a Function prints as it dies is complete', async () => {
    const { id, host } = await ofFunction(
      handler(`for (let n = 0; n < 2000; n++) console.error('line ' + n); process.abort()`),
    )
    expect(await visit(platform, host, '/')).toMatchObject({ status: 502 })
    await vi.waitFor(
      async () => {
        const lines: string[] = []
        for (let cursor = ''; ;) {
          const { body } = await platform.call(
            ana.token,
            `GET /deployments/${id}/runtime-logs?level=ERROR&search=line&limit=1000${cursor}`,
          )
          const page = body as { items: { message: string }[]; nextCursor: string | null }
          lines.push(...page.items.flatMap(({ message }) => message.split('\n')))
          if (page.nextCursor === null) break
          cursor = `&cursor=${page.nextCursor}`
        }
        expect(lines.filter((line) => /^line \d+$/.test(line))).toHaveLength(2000)
      },
      { timeout: 60_000, interval: 200 },
    )
  })
})

test('the processes of a deployment end when that is retired (D83)', async () => {
  const owner = await newOwner(platform)
  const archive = buildOutput({ index: `process.on('exit', () => console.log('ended'))\n${echo}` })
  const { id } = await newDeployment(platform, owner, { archive })
  const { label } = await untilEnded(platform, id)
  const host = `${label}.${platform.api.appsUrl.host}`
  expect((await visit(platform, host, '/')).status).toBe(200)
  const { db } = platform.api
  await db.update(environments).set({ currentDeploymentId: null }).where(eq(environments.currentDeploymentId, id))
  expect(await retireDeployment(platform.api, id)).toBe(true)
  await vi.waitFor(
    async () => {
      const lines = await db.select().from(runtimeLogs).where(eq(runtimeLogs.deploymentId, id))
      expect(lines.map(({ message }) => message)).toEqual(['ended'])
    },
    { timeout: 60_000, interval: 50 },
  )
  await vi.waitFor(async () => expect((await visit(platform, host, '/')).status).toBe(410), { timeout: 60_000 })
})

describe('a machine on which Functions cannot run', () => {
  test('fails their deployments with the reason, and answers 503 for those that others deployed', async () => {
    const lacking = await startPlatform({ hasWorker: true, env: { FUNCTIONS_FOLDER: '/dev/null/fn' } })
    try {
      const { id } = await newDeployment(lacking, await newOwner(lacking), {
        archive: buildOutput({ index: { code: echo } }),
      })
      const { status, failureReason } = await untilEnded(lacking, id)
      expect({ status, failureReason }).toEqual({
        status: 'FAILED',
        failureReason: expect.stringMatching(/^Functions cannot run here: .*\/dev\/null/) as string,
      })
      await expect(lacking.api.functions.acquire(id, 'index')).rejects.toMatchObject({ status: 503 })
    } finally {
      await lacking.close()
    }
  })
})

describe('a handler that throws', () => {
  const throwing = handler(`throw new Error('on purpose')`)
  const deployThrowing = (error: string | undefined, more: Record<string, string> = {}) =>
    deploy(
      buildOutput(
        { boom: throwing, ...more },
        {
          files: { '500.html': 'our own 500' },
          routes: error === undefined ? [] : [{ handle: 'error' }, { src: '/.*', dest: error, status: 500 }],
        },
      ),
    )

  test("shows the site's own page for that, with its status", async () => {
    const { host } = await deployThrowing('/500.html')
    const answer = await visit(platform, host, '/boom')
    expect([answer.status, answer.text]).toEqual([500, 'our own 500'])
    const own = await deployThrowing('/error', { error: handler(`res.end('made for ' + req.url)`) })
    const made = await visit(platform, own.host, '/boom')
    expect([made.status, made.text]).toEqual([500, 'made for /boom'])
  })

  test('says so in a word where there is none, or where that throws as well', async () => {
    for (const error of [undefined, '/boom']) {
      const answer = await visit(platform, (await deployThrowing(error)).host, '/boom')
      expect([answer.status, answer.text]).toEqual([500, 'Internal Server Error'])
      expect(answer.headers).not.toHaveProperty('x-platform-failure')
    }
  })
})

test('fetch() of its own host is a visit through the edge of its machine, whatever its network', async () => {
  const asking = handler(`
    const answer = await fetch('https://' + req.headers.host + new URL(req.url, 'http://a').searchParams.get('path'))
    res.end(answer.status + ' ' + (await answer.text()).slice(0, 80))`)
  const other = handler(`res.end('asked as ' + req.headers.host)`)
  const { id, host } = await deploy(buildOutput({ ask: asking, other }, { files: { 'a.txt': 'a file' } }))
  const ask = async (path: string) => (await visit(platform, host, `/ask?path=${path}`)).text
  expect(await ask('/a.txt')).toBe('200 a file')
  expect(await ask('/other')).toBe(`200 asked as ${host}`)
  expect(await ask('/gone')).toMatch(/^404 /)
  const paths = async () => {
    const rows = await platform.api.db.select().from(requestLogs).where(eq(requestLogs.deploymentId, id))
    return rows.map(({ path }) => path).toSorted()
  }
  await expect.poll(paths).toEqual(['/a.txt', '/ask', '/ask', '/ask', '/gone', '/other'])
})
