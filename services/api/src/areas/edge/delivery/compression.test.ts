import { once } from 'node:events'
import { Agent, createServer, type IncomingHttpHeaders, type IncomingMessage, request } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { brotliDecompressSync, createBrotliDecompress, createGunzip, gunzipSync } from 'node:zlib'
import { openGuardedFetch } from '@platform/guarded-fetch/guarded-fetch'
import { isDrill } from '@platform/testkit/test-environment'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { register } from 'prom-client'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Got, visit } from '../../../../test/deploy.ts'
import { logOf, newDeployment, untilEnded } from '../../../../test/deployments.ts'
import { buildOutput, handler } from '../../../../test/functions.ts'
import { prerendered, TOKEN } from '../../../../test/prerender.ts'
import { newOwner, type Owner } from '../../../../test/scenario.ts'
import type { ZipEntry } from '../../../../test/zip.ts'
import { setQuota } from '../../tenancy/products/quotas.ts'

const MB = 1_048_576
const ACCOUNT_BYTES = 134_217_728
const HITS = isDrill ? 1_000 : 100
const ZEROS_BYTES = isDrill ? 1_073_741_824 : 33_554_432
/** A slot takes 200 requests at once. */
const READERS = 199
setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

const STATE = 'state'
const ROW = '<p>The same words come again and again, as in any page.</p>\\n'
const HTML = ROW.replace('\\n', '\n').repeat(250)

const code = handler(`
  const { pathname, searchParams } = new URL(req.url, 'http://site')
  const html = '${ROW}'.repeat(250)
  const whole = (body, headers = {}, status = 200) =>
    res.writeHead(status, { 'content-type': 'text/html', 'content-length': Buffer.byteLength(body), ...headers }).end(body)
  if (pathname === '/page') return whole(html, { etag: '"v1"', 'accept-ranges': 'bytes', vary: 'Cookie' })
  if (pathname === '/strict') {
    if (req.headers['if-none-match'] === '"v1"') return res.writeHead(304, { etag: '"v1"' }).end()
    return whole(html, { etag: '"v1"' })
  }
  if (pathname === '/knows') return res.writeHead(304, { etag: '"v1"' }).end()
  if (pathname === '/pieces') { res.setHeader('content-type', 'text/html'); res.write(html); return res.end(html) }
  if (pathname === '/empty') { res.writeHead(200, { 'content-type': 'text/html' }).flushHeaders(); return res.end() }
  if (pathname === '/long') return whole(html.repeat(64))
  if (pathname === '/short') return whole(html.slice(0, 1023))
  if (pathname === '/missing') return whole(html, {}, 404)
  if (pathname === '/fixed') return whole(html, { 'cache-control': 'no-transform' })
  if (pathname === '/image') return whole(html, { 'content-type': 'image/png' })
  if (pathname === '/part') return whole(html, { 'content-range': 'bytes 0-9/10' }, 206)
  if (pathname === '/own') return whole((await import('node:zlib')).gzipSync(html), { 'content-encoding': 'gzip', vary: 'Accept-Encoding' })
  if (pathname === '/lies') return whole(html, { 'content-encoding': 'gzip' })
  if (pathname === '/events') { res.writeHead(200, { 'content-type': 'text/event-stream' }); return res.end('data: ' + html.replaceAll('\\n', '') + '\\n\\n') }
  if (pathname === '/breaks') { res.writeHead(200, { 'content-type': 'text/html', 'content-length': 50_000 }); res.write(html); return setTimeout(() => res.destroy(), 0) }
  if (pathname === '/cached') {
    globalThis.made = (globalThis.made ?? 0) + 1
    return whole('<h1>' + globalThis.made + '</h1>' + html, { etag: '"c"', 'cache-control': 's-maxage=60' })
  }
  if (pathname === '/beat') {
    res.writeHead(200, { 'content-type': 'text/html' })
    for (let n = 1; n <= 20; n++) {
      res.write('beat ' + n + ';')
      await new Promise((resolve) => (globalThis.next = resolve))
    }
    return res.end('last;')
  }
  if (pathname === '/next') { globalThis.next(); return res.end() }
  if (pathname === '/zeros') {
    const zeros = Buffer.alloc(65_536)
    res.writeHead(200, { 'content-type': 'text/plain' })
    res.on('close', () => (globalThis.left = true))
    const send = () => { while (!res.destroyed) if (!res.write(zeros)) return res.once('drain', send) }
    return send()
  }
  if (pathname === '/left') return res.end(String(globalThis.left))
  if (pathname === '/open') { res.writeHead(200, { 'content-type': 'text/html' }); return res.write(html) }
  if (pathname === '/ppr' && req.method === 'POST') { res.setHeader('content-type', 'text/html'); return res.end('<p>rest</p>') }
  globalThis.kept = (globalThis.kept ?? 0) + 1
  whole('<h1>' + globalThis.kept + '</h1>' + html, { 'x-next-cache-tags': 'all' })`)

let platform: TestPlatform
let ana: Owner
let host: string
const origin = createServer((_, outgoing) => {
  outgoing.writeHead(200, { 'content-type': 'text/html', 'content-length': HTML.length }).end(HTML)
})

async function deploy(archive: readonly ZipEntry[]): Promise<string> {
  const { id } = await newDeployment(platform, ana, { archive })
  const deployment = await untilEnded(platform, id)
  if (deployment.status !== 'ACTIVE') throw new Error(`${deployment.failureReason}\n${await logOf(platform, id)}`)
  return `${deployment.label}.${platform.api.appsUrl.host}`
}

beforeAll(async () => {
  await once(origin.listen(0, '127.0.0.1'), 'listening')
  platform = await startPlatform({
    hasWorker: true,
    env: { DEFAULT_PLAN: 'pro' },
    guardedFetch: openGuardedFetch({ allow: ['127.0.0.1/32'] }),
  })
  ana = await newOwner(platform)
  // With a single slot, state in the process carries over to the next request.
  await setQuota(platform.api, ana.organizationId, 'function_slots', 2)
  const middleware = buildOutput({
    own: { code: handler(`res.setHeader('content-type', 'text/html'); res.end('${ROW}'.repeat(250))`) },
  })
  const pages = {
    kept: { config: { allowQuery: ['n'] } },
    ppr: {
      fallback: `${STATE}<h1>shell</h1>`,
      config: {
        allowQuery: [],
        initialHeaders: {
          'content-type': `application/x-nextjs-pre-render; state-length=${STATE.length}; origin="text/html"`,
        },
        chain: { outputPath: 'ppr', headers: { 'next-resume': '1' } },
      },
    },
  }
  const routes = [
    { src: '/own-answer', middlewarePath: 'own', continue: true },
    { src: '/elsewhere', dest: `http://127.0.0.1:${(origin.address() as AddressInfo).port}/` },
    { handle: 'filesystem' },
    { src: '/.*', dest: '/control' },
  ]
  host = await deploy([
    ...prerendered(pages, { code, routes }),
    ...middleware.filter(({ name }) => !String(name).endsWith('config.json') || String(name).includes('.func/')),
  ])
})
afterAll(async () => {
  await platform.close()
  origin.close()
})

const get = (path: string, encoding?: string, headers: Record<string, string> = {}, method = 'GET'): Promise<Got> =>
  visit(platform, host, path, {
    method,
    headers: { ...(encoding !== undefined && { 'accept-encoding': encoding }), ...headers },
  })

function decoded({ headers, body }: Got): string {
  const encoding = headers['content-encoding']
  if (encoding === undefined) return body.toString()
  return (encoding === 'br' ? brotliDecompressSync(body) : gunzipSync(body)).toString()
}

/** The headers that compression changes. */
const changed = ({ etag, vary, ...headers }: IncomingHttpHeaders) => ({
  encoding: headers['content-encoding'],
  length: headers['content-length'],
  ranges: headers['accept-ranges'],
  etag,
  vary,
})

async function valueOf(name: string): Promise<number> {
  const { values } = (await register.getSingleMetric(name)?.get()) ?? { values: [] }
  return values.reduce((sum, { value }) => sum + value, 0)
}
const compressions = () => valueOf('edge_compressions_total')
const memory = () => valueOf('edge_compressor_bytes')

describe('an answer of a Function', () => {
  test.each<[string, string | undefined, string | undefined]>([
    ['gzip, deflate, br, zstd is br', 'gzip, deflate, br, zstd', 'br'],
    ['gzip is gzip', 'gzip', 'gzip'],
    ['br;q=0.5, gzip is gzip', 'br;q=0.5, gzip', 'gzip'],
    ['identity;q=0, * is br', 'identity;q=0, *', 'br'],
    ['8 kB that end with gzip is gzip', `${'x,'.repeat(4_000)}gzip`, 'gzip'],
    ['br;q=nonsense is not compressed', 'br;q=nonsense', undefined],
    ['br;q=0, identity is not compressed', 'br;q=0, identity', undefined],
    ['nothing is not compressed', undefined, undefined],
  ])('a client that accepts %s gets what it likes best', async (_, accepted, encoding) => {
    const answer = await get('/page', accepted)
    expect(answer.status).toBe(200)
    expect(decoded(answer)).toBe(HTML)
    expect(changed(answer.headers)).toEqual(
      encoding === undefined
        ? { length: String(HTML.length), ranges: 'bytes', etag: '"v1"', vary: 'Cookie, Accept-Encoding' }
        : { encoding, etag: 'W/"v1"', vary: 'Cookie, Accept-Encoding' },
    )
    if (encoding !== undefined) expect(answer.body.length).toBeLessThan(HTML.length * 0.2)
  })

  test.each([
    ['in pieces', '/pieces', HTML + HTML],
    ['of a megabyte', '/long', HTML.repeat(64)],
    ['of no bytes', '/empty', ''],
  ])('%s arrives whole in br and in gzip', async (_, path, text) => {
    for (const encoding of ['br', 'gzip']) {
      const answer = await get(path, encoding)
      expect(answer.headers['content-encoding']).toBe(encoding)
      expect(decoded(answer)).toBe(text)
    }
  })

  test.each(['/short', '/missing', '/fixed', '/image', '/part', '/own', '/lies', '/events', '/elsewhere'])(
    '%s passes untouched',
    async (path) => {
      const plain = await get(path)
      const answer = await get(path, 'br, gzip')
      expect(changed(answer.headers)).toEqual(changed(plain.headers))
      expect(answer.body).toEqual(plain.body)
      expect(answer.headers['vary']).toBe(path === '/own' ? 'Accept-Encoding' : undefined)
    },
  )

  test('the answer to a request with Range passes untouched (RFC 9110 §14.2)', async () => {
    const answer = await get('/page', 'br', { range: 'bytes=0-9' })
    expect(changed(answer.headers)).toEqual({
      length: String(HTML.length),
      ranges: 'bytes',
      etag: '"v1"',
      vary: 'Cookie',
    })
  })

  test.each(['/page', '/cached', '/kept', '/own-answer'])(
    'to HEAD of %s has the headers of GET, and nothing is compressed for it',
    async (path) => {
      await get(path)
      const ofEach = new Set(['date', 'connection', 'transfer-encoding', 'age'])
      const own = (headers: IncomingHttpHeaders) => Object.entries(headers).filter(([name]) => !ofEach.has(name))
      const before = await compressions()
      const head = await get(path, 'br', {}, 'HEAD')
      expect(await compressions()).toBe(before)
      const got = await get(path, 'br')
      expect(got.headers['content-encoding']).toBe('br')
      expect(own(head.headers)).toEqual(own(got.headers))
      expect(head.body).toHaveLength(0)
    },
  )

  test('a client that names the weak ETag gets 304, also where the Function compares byte by byte (RFC 9110 §13.1.2)', async () => {
    for (const path of ['/page', '/strict', '/knows', '/cached', '/cached']) {
      const { etag = 'W/"v1"' } = (await get(path, 'br')).headers
      const answer = await get(path, 'br', { 'if-none-match': path === '/knows' ? 'W/"v1"' : etag })
      expect([path, answer.status, answer.body.length]).toEqual([path, 304, 0])
      expect(changed(answer.headers)).toMatchObject({
        etag: path === '/cached' ? 'W/"c"' : 'W/"v1"',
        vary: expect.stringMatching(/^(?:Cookie, )?Accept-Encoding$/) as string,
      })
    }
    expect((await get('/page', 'br', { 'if-none-match': 'W/"v0"' })).status).toBe(200)
  })

  test('a compressed answer that breaks off is never complete', async () => {
    const outcome = get('/breaks', 'br').then(
      ({ status }) => status,
      () => 'cut',
    )
    // Where nothing of it was on its way yet, a page of the platform is sent instead.
    expect(['cut', 502]).toContain(await outcome)
  })
})

test('a worker, a Node server and a middleware answer compressed, but for a refused WebSocket', async () => {
  const body = `'${ROW}'.repeat(250)`
  const worker = await deploy([
    {
      name: '_worker.js',
      content: `export default { fetch: () => new Response(${body}, { headers: { 'content-type': 'text/html' } }) }`,
    },
  ])
  const server = await deploy([
    { name: 'package.json', content: '{"type":"module","scripts":{"start":"node server.js"}}' },
    {
      name: 'server.js',
      content: `import { createServer } from 'node:http'
        createServer((req, res) => { res.setHeader('content-type', 'text/html'); res.end(${body}) }).listen(process.env.PORT)`,
    },
  ])
  const answers = await Promise.all([
    visit(platform, worker, '/', { headers: { 'accept-encoding': 'br' } }),
    visit(platform, server, '/', { headers: { 'accept-encoding': 'br' } }),
    get('/own-answer', 'br'),
  ])
  for (const answer of answers) {
    expect(answer.headers).toMatchObject({ 'content-encoding': 'br', vary: 'Accept-Encoding' })
    expect(decoded(answer)).toBe(HTML)
  }
  // A refused WebSocket is passed on as it is.
  const refusal = await refusalOf(server)
  expect(refusal).toMatch(/^HTTP\/1\.1 200/)
  expect(refusal).not.toMatch(/content-encoding/i)
  expect(refusal).toContain(HTML)
})

/** The answer of a server that does not know WebSocket to a client that asks for one. */
async function refusalOf(server: string): Promise<string> {
  const socket = connect(Number(new URL(platform.edgeUrl).port), '127.0.0.1')
  const upgrade =
    'connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n'
  socket.write(`GET / HTTP/1.1\r\nhost: ${server}\r\naccept-encoding: br\r\n${upgrade}\r\n`)
  return Buffer.concat((await socket.toArray()) as Buffer[]).toString()
}

/** Begins a request and returns its answer once it has begun. */
async function begin(path: string, encoding: string, agent?: Agent): Promise<IncomingMessage> {
  const { port } = new URL(platform.edgeUrl)
  const headers = { host, 'accept-encoding': encoding }
  const sent = request({ port, host: '127.0.0.1', path, headers, agent: agent ?? false })
  sent.on('error', () => {}).end()
  const [answer] = (await once(sent, 'response')) as [IncomingMessage]
  return answer.on('error', () => {})
}

test.each(['br', 'gzip'])(
  'a stream in %s keeps its beat: the Function writes on once the client has decoded what there is',
  async (encoding) => {
    const answer = await begin('/beat', encoding)
    expect(answer.headers['content-encoding']).toBe(encoding)
    const decoder = answer.pipe(encoding === 'br' ? createBrotliDecompress() : createGunzip())
    let text = ''
    let beats = 0
    for await (const chunk of decoder as AsyncIterable<Buffer>) {
      text += chunk.toString()
      if (text.endsWith(`beat ${beats + 1};`)) {
        beats += 1
        await get('/next')
      }
    }
    expect(text).toBe(`${Array.from({ length: 20 }, (_, n) => `beat ${n + 1};`).join('')}last;`)
    expect(await memory()).toBe(0)
  },
)

test('zeros without end take little memory, and end with the client', async () => {
  collect()
  const before = process.memoryUsage()
  const answer = await begin('/zeros', 'gzip')
  let received = 0
  let most = 0
  for await (const chunk of answer.pipe(createGunzip()) as AsyncIterable<Buffer>) {
    received += chunk.length
    most = Math.max(most, process.memoryUsage().rss)
    if (received >= ZEROS_BYTES) break
  }
  expect(most - before.rss).toBeLessThan(128 * MB)
  expect(await memory()).toBeGreaterThan(0)
  answer.destroy()
  await expect.poll(memory).toBe(0)
  await expect.poll(async () => (await get('/left')).text).toBe('true')
})

test('slow readers beyond 128 MiB of compressors get their answers as they are', async () => {
  const agent = new Agent({ maxSockets: Infinity })
  const answers = await Promise.all(Array.from({ length: READERS }, () => begin('/open', 'br', agent)))
  const encoded = answers.filter(({ headers }) => headers['content-encoding'] === 'br')
  const plain = answers.filter(({ headers }) => headers['content-encoding'] === undefined)
  expect(encoded.length).toBeGreaterThan(150)
  expect(plain.length).toBe(READERS - encoded.length)
  expect(plain.length).toBeGreaterThan(0)
  expect(await memory()).toBeLessThanOrEqual(ACCOUNT_BYTES)
  const [first] = plain
  expect(first?.headers['vary']).toBe('Accept-Encoding')
  let text = ''
  for await (const chunk of first as AsyncIterable<Buffer>) if ((text += chunk.toString()).length >= HTML.length) break
  expect(text).toBe(HTML)
  for (const answer of answers) answer.destroy()
  agent.destroy()
  await expect.poll(memory).toBe(0)
})

test.each([
  ['a cached answer', '/cached?hits'],
  ['a kept page', '/kept?n=1'],
])('%s is compressed once for all who get it', async (_, path) => {
  await get(path)
  const before = await compressions()
  const texts = new Set<string>()
  for (let n = 0; n < HITS; n += 10) {
    const answers = await Promise.all(Array.from({ length: 10 }, (__, k) => get(path, k % 2 ? 'br' : 'gzip, br;q=0.1')))
    for (const answer of answers) {
      expect(answer.headers).toMatchObject({ 'x-cache': 'HIT', vary: 'Accept-Encoding' })
      expect(answer.headers['content-length']).toBeUndefined()
      texts.add(decoded(answer))
    }
  }
  expect(texts.size).toBe(1)
  expect([...texts][0]).toContain(HTML)
  expect(await compressions()).toBe(before + 2)
})

test('a kept page that is made anew leaves no copy of the old one', async () => {
  const old = decoded(await get('/kept?n=2', 'br'))
  expect(decoded(await get('/kept?n=2', 'br'))).toBe(old)
  await get('/kept?n=2', 'br', { 'x-prerender-revalidate': TOKEN })
  const next = await get('/kept?n=2', 'br')
  expect(next.headers['x-cache']).toBe('HIT')
  expect(decoded(next)).not.toBe(old)
  const etag = String(next.headers.etag)
  expect(etag).toMatch(/^W\/"/)
  const current = await get('/kept?n=2', 'br', { 'if-none-match': etag })
  expect([current.status, current.headers.etag, current.headers['vary']]).toEqual([304, etag, 'Accept-Encoding'])
})

test('visitors who wait for the same page share its compressed copy', async () => {
  const before = await compressions()
  const answers = await Promise.all(Array.from({ length: 20 }, () => get('/kept?n=3', 'br')))
  expect(new Set(answers.map(decoded)).size).toBe(1)
  expect((await compressions()) - before).toBeLessThanOrEqual(2)
})

test('a page that is kept in part is compressed as it is put together', async () => {
  const answer = await get('/ppr', 'gzip')
  expect(answer.headers).toMatchObject({ 'content-encoding': 'gzip', vary: 'Accept-Encoding' })
  expect(decoded(answer)).toBe('<h1>shell</h1><p>rest</p>')
})
