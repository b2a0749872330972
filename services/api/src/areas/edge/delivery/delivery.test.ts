import { once } from 'node:events'
import { type IncomingMessage, type OutgoingHttpHeaders, request } from 'node:http'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { eq } from 'drizzle-orm'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { requestLogs } from '../../observe/request-logs/table.ts'
import { findObjectWithContent } from '../../storage/objects/read-object.ts'
import { loggedRequests } from '../../../../test/logged-requests.ts'
import { newOwner, type Owner, storeObject, unique } from '../../../../test/scenario.ts'

let platform: TestPlatform
let ana: Owner
beforeAll(async () => {
  platform = await startPlatform()
  ana = await newOwner(platform)
})
afterAll(() => platform.close())

interface Got {
  status: number | undefined
  headers: IncomingMessage['headers']
  body: string
}

/** Requests a path of a hostname from the edge, whether or not the name resolves here. */
async function ask(host: string, path: string, headers: OutgoingHttpHeaders = {}, method = 'GET'): Promise<Got> {
  const { port } = new URL(platform.edgeUrl)
  const sent = request({ port, host: 'localhost', method, path, headers: { host, ...headers } }).end()
  const [answer] = (await once(sent, 'response')) as [IncomingMessage]
  const body = (await answer.setEncoding('utf8').toArray()).join('')
  return { status: answer.statusCode, headers: answer.headers, body }
}
/** The same for an absolute URL. */
function follow(url: string, headers?: OutgoingHttpHeaders, method?: string): Promise<Got> {
  const { host, pathname, search } = new URL(url)
  return ask(host, `${pathname}${search}`, headers, method)
}

async function newBucket(visibility: 'public' | 'private') {
  const made = await platform.call(ana.token, `POST /applications/${ana.applicationId}/storage/buckets`, {
    name: `b-${unique()}`,
    visibility,
  })
  expect(made.status).toBe(201)
  return made.body as { id: string; name: string; slug: string; cdnHostname: string }
}
/** Converts a URL in path form, which the API returns below localhost (D92), to one at the bucket's own hostname. */
const atHostname = ({ cdnHostname, slug }: { cdnHostname: string; slug: string }, url: string): string =>
  url.replace(`${platform.edgeUrl}/_objects/${slug}`, `http://${cdnHostname}`)
const accessTo = async (id: string, query = '') =>
  (
    await platform.call(
      ana.token,
      `GET /applications/${ana.applicationId}/environments/production/objects/${id}/access-url${query}`,
    )
  ).body as { url: string }

test('a hostname that belongs to nothing is a 404 page that runs nothing', async () => {
  const { status, headers, body } = await ask('shop.example.com', '/any/path')
  expect([status, headers['content-security-policy']]).toEqual([404, expect.stringContaining("default-src 'none'")])
  expect(body).toContain('Nothing is deployed here')
})

describe('objects of public buckets', () => {
  test('whose bytes the store does not give are a 502, not an answer that breaks off (D22)', async () => {
    const bucket = await newBucket('public')
    const object = await storeObject(platform, bucket.id, 'lost', 'x'.repeat(100_000))
    const row = await findObjectWithContent(platform.api, bucket.id, 'lost')
    await platform.api.blobs.remove([row?.first?.id ?? ''])
    const { url } = await accessTo(object.id)
    expect((await follow(url)).status).toBe(502)
    expect((await follow(url, { range: 'bytes=5-9' })).status).toBe(502)
  })

  test('answer at the hostname of their bucket, and sandboxed at the path form (storage.md Delivery)', async () => {
    const bucket = await newBucket('public')
    const object = await storeObject(platform, bucket.id, 'dir/ä b.txt', 'content')
    const { url } = await accessTo(object.id)
    const own = await follow(atHostname(bucket, url))
    expect(own).toMatchObject({
      status: 200,
      body: 'content',
      headers: {
        'content-type': 'text/plain',
        'content-length': '7',
        'x-content-type-options': 'nosniff',
        'access-control-allow-origin': '*',
        'cache-control': 'public, no-cache',
        etag: `"${object.etag}"`,
      },
    })
    expect(own.headers).not.toHaveProperty('content-security-policy')
    const byPath = await follow(url)
    expect([byPath.body, byPath.headers['content-security-policy']]).toEqual(['content', 'sandbox'])
    const head = await follow(url, {}, 'HEAD')
    expect([head.status, head.headers['content-length'], head.body]).toEqual([200, '7', ''])
  })

  test('are not there where the key is not, nor below a hostname that no bucket has', async () => {
    const bucket = await newBucket('public')
    expect((await ask(bucket.cdnHostname, '/missing')).status).toBe(404)
    expect((await ask(bucket.cdnHostname, '/')).status).toBe(400)
    expect((await ask(bucket.cdnHostname, '/%ff')).status).toBe(400)
    expect((await ask(`nobody.${platform.api.objectsDomain}`, '/x')).status).toBe(404)
    expect((await ask(bucket.cdnHostname, '/x', {}, 'PUT')).status).toBe(405)
  })

  test('keep their keys as they are, dot segments and empty ones included', async () => {
    const bucket = await newBucket('public')
    for (const key of ['../x', 'a//b', '/lead', 'a/./b', '?#%', 'x+y']) {
      const object = await storeObject(platform, bucket.id, key, key)
      const url = atHostname(bucket, (await accessTo(object.id)).url)
      const path = url.slice(url.indexOf('/', 'http://'.length))
      expect([key, (await ask(bucket.cdnHostname, path)).body]).toEqual([key, key])
    }
  })

  test('answer ranges and conditions (RFC 9110)', async () => {
    const bucket = await newBucket('public')
    const object = await storeObject(platform, bucket.id, 'k', '0123456789')
    const get = (headers: OutgoingHttpHeaders) => ask(bucket.cdnHostname, '/k', headers)
    const part = await get({ range: 'bytes=2-4' })
    expect([part.status, part.body, part.headers['content-range']]).toEqual([206, '234', 'bytes 2-4/10'])
    expect((await get({ range: 'bytes=-3' })).body).toBe('789')
    expect((await get({ range: 'bytes=20-' })).headers['content-range']).toBe('bytes */10')
    expect((await get({ range: 'bytes=2-4', 'if-range': '"other"' })).status).toBe(200)
    expect((await get({ 'if-none-match': `"${object.etag}"` })).status).toBe(304)
    expect((await get({ 'if-match': '"other"' })).status).toBe(412)
    expect((await get({ 'if-modified-since': new Date(Date.now() + 60_000).toUTCString() })).status).toBe(304)
  })

  test('large ones come by the piece', async () => {
    const bucket = await newBucket('public')
    const content = 'x'.repeat(200_000)
    await storeObject(platform, bucket.id, 'k', content)
    expect((await ask(bucket.cdnHostname, '/k')).body).toBe(content)
    expect((await ask(bucket.cdnHostname, '/k', { range: 'bytes=199990-' })).body).toBe('x'.repeat(10))
  })

  test('can be downloaded under a name of any script (RFC 6266, RFC 8187)', async () => {
    const bucket = await newBucket('public')
    await storeObject(platform, bucket.id, 'photos/cat.jpg', 'x')
    const named = await ask(bucket.cdnHostname, `/photos/cat.jpg?download=${encodeURIComponent('Käse "1".jpg')}`)
    expect(named.headers['content-disposition']).toBe(
      `attachment; filename="K_se _1_.jpg"; filename*=UTF-8''K%C3%A4se%20%221%22.jpg`,
    )
    const own = await ask(bucket.cdnHostname, '/photos/cat.jpg?download')
    expect(own.headers['content-disposition']).toContain('filename="cat.jpg"')
  })
})

describe('objects of private buckets', () => {
  test('answer a signed URL until its time is over, or the object is in the trash (D40)', async () => {
    const bucket = await newBucket('private')
    const object = await storeObject(platform, bucket.id, 'k', 'secret')
    const { url } = await accessTo(object.id, '?expiresInSeconds=60')
    const got = await follow(url)
    expect([got.status, got.body]).toEqual([200, 'secret'])
    expect(got.headers['cache-control']).toMatch(/^private, max-age=(5\d|60)$/)
    platform.clock.advance(61_000)
    expect((await follow(url)).status).toBe(403)
    platform.clock.advance(-61_000)
    expect((await follow(url)).status).toBe(200)
    await platform.call(
      ana.token,
      `DELETE /applications/${ana.applicationId}/environments/production/objects/${object.id}`,
    )
    expect((await follow(url)).status).toBe(403)
  })

  test('answer nobody else: no signature, another, of another object, stretched', async () => {
    const bucket = await newBucket('private')
    const [a, b] = await Promise.all(['a', 'b'].map((key) => storeObject(platform, bucket.id, key, key)))
    const access = new URL((await accessTo(a?.id ?? '')).url).searchParams.get('access') ?? ''
    const [expires = '', ...signature] = access.split('.')
    const tries = [
      '/a',
      '/a?access=',
      '/a?access=nonsense',
      `/b?access=${access}`,
      `/a?access=${Number(expires) + 1}.${signature.join('.')}`,
      `/a?access=${access.slice(0, -1)}`,
      '/missing',
    ]
    for (const path of tries) expect([path, (await ask(bucket.cdnHostname, path)).status]).toEqual([path, 403])
    expect((await ask(bucket.cdnHostname, `/a?access=${access}`)).body).toBe('a')
    // Given twice, it is refused, and not shown (D116).
    const twice = await ask(bucket.cdnHostname, `/a?access=${access}&access=${access}`)
    expect(twice.status).toBe(422)
    expect(JSON.parse(twice.body)).toMatchObject({ on: 'query', property: '/access', found: '[redacted]' })
    expect(b?.key).toBe('b')
  })
})

test('what was delivered stands in the request log, and no signature with it (A §2)', async () => {
  const bucket = await newBucket('private')
  const object = await storeObject(platform, bucket.id, 'k', 'x'.repeat(1_000))
  const { url } = await accessTo(object.id)
  await follow(atHostname(bucket, url), { 'user-agent': 'reader/1' })
  await ask(bucket.cdnHostname, '/nothing')
  await loggedRequests(platform, eq(requestLogs.hostname, bucket.cdnHostname), 2)
  const log = await platform.call(
    ana.token,
    `GET /applications/${ana.applicationId}/requests?hostname=${bucket.cdnHostname}`,
  )
  expect(log.body.total).toBe(2)
  const of = (path: string) =>
    (log.body.items as { request: { path: string } }[]).find(({ request: { path: its } }) => its === path)
  expect(of('/k')).toMatchObject({
    storageBucket: { id: bucket.id, name: bucket.name },
    storageObject: { id: object.id, key: 'k', contentType: 'text/plain' },
    request: { method: 'GET', path: '/k', query: 'access=[redacted]', userAgent: 'reader/1' },
    response: { status: 200 },
    metrics: { responseBodyBytes: 1_000 },
  })
  expect(of('/nothing')).toMatchObject({ storageObject: null, response: { status: 403 } })
})
