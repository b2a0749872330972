import { once } from 'node:events'
import { mkdir, mkdtemp, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { type IncomingMessage, request } from 'node:http'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { brotliCompressSync, brotliDecompressSync, gunzipSync, gzipSync } from 'node:zlib'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { newOwner, storeObject } from '../../../../test/scenario.ts'
import { consolePolicy } from './policy.ts'

const PAGE = '<!doctype html><title>Platform</title>'
const SCRIPT = 'index-D8s_kZ-2.js'
const FONT = 'inter.0f1e2d3c-Ba9XyZ01.woff2'
const script = 'console.log("hello")\n'.repeat(100)

let platform: TestPlatform
let parent: string
let folder: string
beforeAll(async () => {
  parent = await mkdtemp(join(tmpdir(), 'console-'))
  folder = join(parent, 'console')
  await mkdir(join(folder, '_'), { recursive: true })
  const files: Record<string, string | Buffer> = { 'index.html': PAGE, [`_/${SCRIPT}`]: script }
  for (const [name, content] of Object.entries(files)) {
    await writeFile(join(folder, name), content)
    await writeFile(join(folder, `${name}.br`), brotliCompressSync(content))
    await writeFile(join(folder, `${name}.gz`), gzipSync(content))
  }
  await writeFile(join(folder, '_', FONT), 'font')
  platform = await startPlatform({ consoleFolder: folder })
})
afterAll(async () => {
  await platform.close()
  await rm(parent, { recursive: true })
})

interface Got {
  status: number
  headers: Record<string, unknown>
  body: Buffer
}

/** Asks for a path with these headers and no others, and leaves the answer as it was sent. */
async function get(path: string, headers: Record<string, string> = {}, method = 'GET'): Promise<Got> {
  const sent = request(`${platform.consoleUrl}${path}`, { method, headers }).end()
  const [answer] = (await once(sent, 'response')) as [IncomingMessage]
  const body = Buffer.concat((await answer.toArray()) as Buffer[])
  return { status: answer.statusCode ?? 0, headers: answer.headers, body }
}

test('any path that names no file shows the page, which is asked for again each time', async () => {
  for (const path of ['/', '/acme/shop/deployments', '/callback?code=x', '/index.html', '/.vite/manifest.json']) {
    const { status, headers, body } = await get(path)
    expect([path, status, body.toString()]).toEqual([path, 200, PAGE])
    expect(headers).toMatchObject({
      'content-type': 'text/html; charset=utf-8',
      'content-length': String(PAGE.length),
      'cache-control': 'no-cache',
      vary: 'Accept-Encoding',
    })
  }
  const head = await get('/', {}, 'HEAD')
  expect([head.status, head.headers['content-length'], head.body.length]).toEqual([200, String(PAGE.length), 0])
})

test('a file of the build is kept for a year, and one that is gone is a 404 and not the page', async () => {
  const { status, headers, body } = await get(`/_/${SCRIPT}`)
  expect([status, body.toString()]).toEqual([200, script])
  expect(headers).toMatchObject({
    'content-type': 'text/javascript; charset=utf-8',
    'cache-control': 'public, max-age=31536000, immutable',
  })
  const font = await get(`/_/${FONT}`, { 'accept-encoding': 'gzip, br' })
  expect(font.headers).toMatchObject({ 'content-type': 'font/woff2', vary: 'Accept-Encoding' })
  expect([font.status, font.headers['content-encoding'], font.body.toString()]).toEqual([200, undefined, 'font'])
  for (const name of ['index-00000000.js', `${SCRIPT}.br`, 'index.js', `${SCRIPT}/`, '', '%5f'])
    expect([name, (await get(`/_/${name}`)).status]).toEqual([name, 404])
})

test('the copy in the coding that a client prefers is sent as it lies there', async () => {
  for (const [path, content] of [
    ['/', PAGE],
    [`/_/${SCRIPT}`, script],
  ] as const) {
    const [br, gzip, weighed, none] = [
      await get(path, { 'accept-encoding': 'gzip, deflate, br, zstd' }),
      await get(path, { 'accept-encoding': 'gzip, deflate' }),
      await get(path, { 'accept-encoding': 'br;q=0.5, gzip' }),
      await get(path, { 'accept-encoding': 'br;q=0, gzip;q=0' }),
    ]
    expect([br, gzip, weighed, none].map(({ headers }) => [headers['content-encoding'], headers.vary])).toEqual([
      ['br', 'Accept-Encoding'],
      ['gzip', 'Accept-Encoding'],
      ['gzip', 'Accept-Encoding'],
      [undefined, 'Accept-Encoding'],
    ])
    expect(brotliDecompressSync(br.body).toString()).toBe(content)
    expect(gunzipSync(gzip.body).toString()).toBe(content)
    expect(none.body.toString()).toBe(content)
    expect(new Set([br, gzip, none].map(({ headers }) => headers.etag)).size).toBe(3)
  }
})

test('a client whose copy is current gets 304, also of a coded one, and the page again once it has changed', async () => {
  const coded = { 'accept-encoding': 'br' }
  const { etag } = (await get('/', coded)).headers as { etag: string }
  const current = await get('/acme', { ...coded, 'if-none-match': `"x", W/${etag}` })
  expect([current.status, current.body.length]).toEqual([304, 0])
  expect(current.headers).toMatchObject({ etag, 'cache-control': 'no-cache', vary: 'Accept-Encoding' })
  expect(current.headers).not.toHaveProperty('content-type')
  expect((await get('/', { 'if-none-match': etag })).status).toBe(200)
  const held = join(folder, 'index.html.br')
  await writeFile(held, brotliCompressSync(`${PAGE}<p>new`))
  onTestFinished(() => writeFile(held, brotliCompressSync(PAGE)))
  expect((await get('/', { ...coded, 'if-none-match': etag })).status).toBe(200)
})

test('config.json tells the pages what this installation is', async () => {
  const { status, headers, body } = await get('/config.json')
  const { api } = platform
  expect([status, headers['content-type'], headers['cache-control']]).toEqual([200, 'application/json', 'no-cache'])
  expect(JSON.parse(body.toString())).toEqual({
    apiUrl: platform.apiUrl,
    issuer: platform.idpUrl,
    clientId: [...api.consoleClientIds][0],
    appsUrl: platform.edgeUrl,
  })
})

test('every answer holds its page to this origin, the API, sign-in and objects', async () => {
  const answers = [
    await get('/'),
    await get('/config.json'),
    await get(`/_/${SCRIPT}`),
    await get('/_/gone'),
    await get('/', {}, 'POST'),
    await get('/', { 'if-none-match': '*' }),
  ]
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 404, 405, 304])
  const { apiUrl, idpUrl, edgeUrl } = platform
  for (const { headers } of answers) {
    expect(headers).toMatchObject({
      'cross-origin-opener-policy': 'same-origin',
      'cross-origin-resource-policy': 'same-origin',
      'permissions-policy': 'clipboard-write=(self)',
      'referrer-policy': 'no-referrer',
      'x-content-type-options': 'nosniff',
    })
    expect((headers['content-security-policy'] as string).split('; ')).toEqual([
      "default-src 'none'",
      "script-src 'self'",
      "style-src 'self'",
      "font-src 'self'",
      `connect-src 'self' ${apiUrl} ${idpUrl} ${edgeUrl}`,
      `img-src 'self' blob: ${edgeUrl}`,
      `media-src ${edgeUrl}`,
      "worker-src 'self'",
      "frame-ancestors 'none'",
      "base-uri 'none'",
      "form-action 'none'",
      "require-trusted-types-for 'script'",
      'trusted-types console-worker',
    ])
    expect(headers).not.toHaveProperty('set-cookie')
    expect(headers).not.toHaveProperty('access-control-allow-origin')
  }
})

test.each([
  ['https://api.example.com', 'objects.example.net', 'https://*.objects.example.net'],
  ['http://api.example.com:8080', 'objects.example.net:8081', 'http://*.objects.example.net:8081'],
  ['http://localhost:4000', 'objects.localhost:4002', 'http://localhost:4002'],
])('with the API at %s and objects below %s the policy lets pages read %s', (publicUrl, objectsDomain, source) => {
  const policy = consolePolicy({ publicUrl, idpUrl: 'https://id.example.com', objectsDomain })
  expect(policy).toContain(`connect-src 'self' ${publicUrl} https://id.example.com ${source};`)
  expect(policy).toContain(`img-src 'self' blob: ${source};`)
  expect(policy).toContain(`media-src ${source};`)
})

test('the addresses that pages send uploads to and read objects from are those of the policy', async () => {
  const { token, applicationId } = await newOwner(platform)
  const origins = new Set<string>()
  const add = (url: unknown) => origins.add(new URL(url as string).origin)
  const { body: deployment } = await platform.call(token, 'POST /deployments', { applicationId })
  const upload = `POST /deployments/${deployment.id}/upload`
  const { uploadId } = (await platform.call(token, `${upload}/start`)).body as { uploadId: string }
  add((await platform.call(token, `${upload}/part`, { uploadId, partNumber: 1 })).body.url)
  const { body: bucket } = await platform.call(token, `POST /applications/${applicationId}/storage/buckets`, {
    name: 'media',
  })
  const session = await platform.call(token, `POST /applications/${applicationId}/storage/buckets/media/uploads`, {
    key: 'cat.jpg',
    contentLength: 1,
    checksumSha256: '0'.repeat(64),
  })
  add(session.body.upload.url)
  const { id } = await storeObject(platform, bucket.id as string, 'dog.jpg', 'x')
  const path = `/applications/${applicationId}/environments/production/objects/${id}/access-url`
  add((await platform.call(token, `GET ${path}`)).body.url)
  expect([...origins].toSorted()).toEqual([platform.apiUrl, platform.edgeUrl].toSorted())
})

test('only GET and HEAD are answered', async () => {
  for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS', 'PROPFIND'])
    for (const path of ['/', '/config.json', `/_/${SCRIPT}`]) {
      const { status, headers } = await get(path, {}, method)
      expect([method, path, status, headers.allow]).toEqual([method, path, 405, 'GET, HEAD'])
    }
})

/** Sends a path as it is; clients that know URLs would tidy it up. */
async function answerTo(path: string): Promise<string> {
  const socket = connect(Number(new URL(platform.consoleUrl).port), 'localhost')
  await once(socket, 'connect')
  socket.write(`GET ${path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`)
  return text(socket)
}

test('no path leads out of the folder, to a link, or to a file that the build did not name', async () => {
  await writeFile(join(parent, 'secret-12345678.js'), 'secret')
  await writeFile(join(folder, 'secret-12345678.js'), 'secret')
  await symlink(join(parent, 'secret-12345678.js'), join(folder, '_/link-12345678.js'))
  await mkdir(join(folder, '_/folder-12345678.js'))
  const tricks = [
    '/../secret-12345678.js',
    '/_/../../secret-12345678.js',
    '/_/..%2f..%2fsecret-12345678.js',
    '/_/..%5c..%5csecret-12345678.js',
    '/..%2fsecret-12345678.js',
    '/_/%2e%2e/%2e%2e/secret-12345678.js',
    '/secret-12345678.js',
    '/_//secret-12345678.js',
    '/_/link-12345678.js',
    '/_/folder-12345678.js',
    `/_/${join(parent, 'secret-12345678.js')}`,
    'http://a/_/../secret-12345678.js',
    '/_/secret-12345678.js%00.js',
  ]
  for (const path of tricks) {
    const answer = await answerTo(path)
    expect([path, answer]).toEqual([path, expect.stringMatching(/^HTTP\/1\.1 (200 OK|404 Not Found)\r\n/)])
    expect(answer).not.toContain('secret')
  }
})

test('until the console is built its page is a 503 that says so', async () => {
  await rename(folder, join(parent, 'away'))
  onTestFinished(() => rename(join(parent, 'away'), folder))
  const { status, headers, body } = await get('/acme')
  expect([status, body.toString()]).toEqual([503, 'The console is not built yet'])
  expect(headers).toMatchObject({ 'content-type': 'text/plain; charset=utf-8', 'cache-control': 'no-store' })
  expect((await get('/config.json')).status).toBe(200)
  expect((await get(`/_/${SCRIPT}`)).status).toBe(404)
})

test('pages of the console may call the API without being listed', async () => {
  const preflight = await fetch(`${platform.apiUrl}/organizations`, {
    method: 'OPTIONS',
    headers: { origin: platform.consoleUrl, 'access-control-request-method': 'GET' },
  })
  expect(preflight.headers.get('access-control-allow-origin')).toBe(platform.consoleUrl)
  const other = await fetch(`${platform.apiUrl}/organizations`, {
    method: 'OPTIONS',
    headers: { origin: 'https://elsewhere.example.com', 'access-control-request-method': 'GET' },
  })
  expect(other.headers.get('access-control-allow-origin')).toBeNull()
})

test('CONNECT is refused in a sentence, with an id and the methods of the console', async () => {
  const socket = connect(Number(new URL(platform.consoleUrl).port), 'localhost')
  socket.write('CONNECT x:1 HTTP/1.1\r\nHost: x:1\r\n\r\n')
  expect(await text(socket)).toMatch(
    /^HTTP\/1\.1 405 [^]*\r\nX-Request-Id: [\da-f-]{36}\r\n[^]*\r\nAllow: GET, HEAD\r\n\r\nCONNECT is for proxies, and this is none\n$/,
  )
})
