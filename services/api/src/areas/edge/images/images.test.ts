import { openGuardedFetch } from '@platform/guarded-fetch/guarded-fetch'
import { workUnderWay } from '@platform/service/metrics'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { and, eq, inArray } from 'drizzle-orm'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { deploy, type Deployed, type Got, visit } from '../../../../test/deploy.ts'
import {
  askImage,
  hugePng,
  imagePath,
  movingPicture,
  picture,
  seen,
  startOrigin,
  storedImages,
} from '../../../../test/images.ts'
import { loggedRequests } from '../../../../test/logged-requests.ts'
import { newOwner, type Owner } from '../../../../test/scenario.ts'
import { requestLogs } from '../../observe/request-logs/table.ts'

const SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><script>alert(1)</script></svg>'

let platform: TestPlatform
let origin: Awaited<ReturnType<typeof startOrigin>>
let ana: Owner
let plain: Deployed
let framework: Deployed
beforeAll(async () => {
  origin = await startOrigin()
  platform = await startPlatform({ guardedFetch: openGuardedFetch({ allow: ['127.0.0.1/32'] }) })
  ana = await newOwner(platform)
  const files = {
    'cat.jpg': { content: await picture(1_000, 500), contentType: 'image/jpeg' },
    'dog-5f2a9c81.png': { content: await picture(300, 300, 'png'), contentType: 'image/png' },
    'tiny.webp': { content: await picture(40, 20, 'webp'), contentType: 'image/webp' },
    'moving.gif': { content: await movingPicture(), contentType: 'image/gif' },
    'logo.svg': { content: SVG, contentType: 'image/svg+xml' },
    'huge.png': { content: hugePng(100_000, 100_000), contentType: 'image/png' },
    'a b/ü.jpg': { content: await picture(100, 50), contentType: 'image/jpeg' },
    'page.html': '<p>hi',
    '_next/image': { content: 'its own', contentType: 'text/plain' },
  }
  plain = await deploy(platform, ana, { files })
  framework = await deploy(platform, ana, {
    files,
    output: {
      kind: 'build-output',
      routes: [
        { src: '^/pretty/(.*)$', dest: '/$1' },
        { src: '^/circle$', dest: '/_next/image?url=%2Fcat.jpg&w=64&q=75' },
        { src: '^/origin/(.*)$', dest: `${origin.url}/$1` },
        { src: '^/moved$', status: 308, headers: { location: '/cat.jpg' } },
        { src: '^/moved-in-circles$', status: 307, headers: { location: '/moved-in-circles' } },
        { src: '^/moved-to-image$', status: 307, headers: { location: '/_platform/image/%2Fcat.jpg/x' } },
        { handle: 'filesystem' },
      ],
      images: {
        sizes: [16, 64, 640],
        qualities: [50, 75],
        domains: [],
        remotePatterns: [],
        minimumCacheTTL: 120,
        formats: ['image/webp'],
        dangerouslyAllowSVG: true,
        contentSecurityPolicy: "default-src 'none'",
        contentDispositionType: 'attachment',
      },
    },
  })
})
afterAll(async () => {
  await platform.close()
  origin.close()
})

const nextPath = (source: string, w: number | string = 64, q: number | string = 75) =>
  `/_next/image?url=${encodeURIComponent(source)}&w=${w}&q=${q}`
const errorOf = ({ status, headers }: Got) => [status, headers['x-platform-error'], headers['cache-control']]

describe('a managed image URL', () => {
  test.each<[string, [string, number, number]]>([
    ['', ['jpeg', 1_000, 500]],
    ['width=1', ['jpeg', 16, 8]],
    ['width=300', ['jpeg', 384, 192]],
    ['width=384&quality=1&format=webp', ['webp', 384, 192]],
    ['width=3840', ['jpeg', 1_000, 500]],
    ['height=33', ['jpeg', 96, 48]],
    ['width=100&height=100', ['jpeg', 128, 128]],
    ['width=100&height=100&fit=cover&format=png', ['png', 128, 128]],
    ['width=100&height=100&fit=inside', ['jpeg', 128, 64]],
    ['width=100&height=100&fit=contain&format=avif', ['avif', 128, 128]],
  ])('?%s is %j', async (query, expected) => {
    const got = await askImage(platform, plain, imagePath('/cat.jpg', query))
    const { format, width, height } = await seen(got)
    expect([got.status, format, width, height]).toEqual([200, ...expected])
    expect(got.headers['content-type']).toBe(`image/${expected[0]}`)
  })

  test('rounds sizes and qualities, so that close wishes are one image', async () => {
    const get = (query: string) => askImage(platform, plain, imagePath('/dog-5f2a9c81.png', query))
    const first = await get('width=97&quality=71&fit=contain&format=webp')
    for (const query of ['width=128&quality=75', 'width=100', 'width=128&quality=74&fit=cover&x=1']) {
      const { headers, body } = await get(`${query}&format=webp`)
      expect([query, headers['x-cache'], headers.etag, body.equals(first.body)]).toEqual([
        query,
        'HIT',
        first.headers.etag,
        true,
      ])
    }
    expect((await get('width=128&quality=76&format=webp')).headers['x-cache']).toBe('MISS')
  })

  test.each([
    ['a source of several segments that came decoded', '/_platform/image//cat.jpg/any.name?width=16', 200],
    ['a source beyond ASCII', imagePath('/a b/ü.jpg'), 200],
    ['a source with dot segments', imagePath('/x/../cat.jpg'), 200],
    ['an empty file name', imagePath('/cat.jpg', '', ''), 200],
    ['no file name', `/_platform/image/${encodeURIComponent('/cat.jpg')}`, 400],
    ['no source', '/_platform/image//x', 400],
    ['broken encoding', '/_platform/image/%2Fcat%E0%A4/x', 400],
    ['a source without a slash', imagePath('cat.jpg'), 400],
    ['a host without a scheme', imagePath('//a.example/x.jpg'), 400],
    ['a host behind a backslash', imagePath('/\\a.example/x.jpg'), 400],
    ['another protocol', imagePath('file:///etc/passwd'), 400],
    ['a source of 2,049 bytes', imagePath(`/${'x'.repeat(2_048)}`), 400],
    ['another origin', imagePath('https://a.example/x.jpg'), 400],
    ['a width of 0', imagePath('/cat.jpg', 'width=0'), 400],
    ['a width of 3,841', imagePath('/cat.jpg', 'width=3841'), 400],
    ['a width of half a pixel', imagePath('/cat.jpg', 'width=1.5'), 400],
    ['a width in hex', imagePath('/cat.jpg', 'width=0x10'), 400],
    ['two widths', imagePath('/cat.jpg', 'width=16&width=32'), 400],
    ['a negative height', imagePath('/cat.jpg', 'height=-1'), 400],
    ['a quality of 101', imagePath('/cat.jpg', 'quality=101'), 400],
    ['another format', imagePath('/cat.jpg', 'format=gif'), 400],
    ['another fit', imagePath('/cat.jpg', 'fit=fill'), 400],
    ['a missing file', imagePath('/nothing.jpg'), 404],
    ['100,000 × 100,000 pixels', imagePath('/huge.png', 'width=16'), 413],
    ['a page', imagePath('/page.html'), 415],
    ['an SVG', imagePath('/logo.svg'), 415],
  ])('with %s: %s is %i', async (_, path, status) => {
    const codes: Record<number, string | undefined> = {
      400: 'image_request_invalid',
      404: 'image_source_missing',
      413: 'image_too_large',
      415: 'image_unreadable',
    }
    const got = await askImage(platform, plain, path)
    if (status === 200) expect([got.status, (await seen(got)).format]).toEqual([200, 'jpeg'])
    else expect(errorOf(got)).toEqual([status, codes[status], 'no-store'])
  })

  test.each(['POST', 'PUT', 'DELETE', 'OPTIONS'])('is not for %s', async (method) => {
    const got = await visit(platform, plain.host, imagePath('/cat.jpg'), { method })
    expect([got.status, got.headers.allow]).toEqual([405, 'GET, HEAD'])
  })

  test.each([
    ['/_platform/image/x/y'],
    ['/_platform/other'],
    ['/_next/image?url=/cat.jpg'],
    ['/%5Fnext/image'],
    ['/_next//image/'],
    ['/_vercel/image'],
    ['/_platform%2Fimage%2Fx/y'],
    ['/_PLATFORM/image/x/y'],
    ['/a/../_next/image'],
  ])('leads in no circle: %s', async (source) => {
    expect(errorOf(await askImage(platform, framework, imagePath(source)))[0]).toBe(400)
  })

  test('of a path that a route leads to another image of is no circle either', async () => {
    const got = await askImage(platform, framework, imagePath('/circle'))
    expect([404, 415]).toContain(got.status)
    expect(errorOf(await askImage(platform, framework, imagePath('/moved-to-image')))).toEqual([
      502,
      'image_source_failed',
      'no-store',
    ])
  })

  test('that came back from another origin goes no further', async () => {
    const got = await askImage(platform, plain, imagePath('/cat.jpg'), { 'cdn-loop': 'other, platform-edge' })
    expect(errorOf(got)).toEqual([508, 'image_loop', 'no-store'])
  })
})

describe('the format', () => {
  test.each<[string, string, string | undefined]>([
    ['image/avif,image/webp,*/*', 'avif', 'Accept'],
    ['image/webp,image/avif;q=0.1', 'avif', 'Accept'],
    ['image/avif;q=0, IMAGE/WEBP', 'webp', 'Accept'],
    ['image/*,*/*', 'jpeg', 'Accept'],
    ['', 'jpeg', 'Accept'],
  ])('is negotiated: %s is %s', async (accept, format, vary) => {
    const got = await askImage(platform, plain, imagePath('/cat.jpg', 'width=64'), { accept })
    expect([(await seen(got)).format, got.headers.vary]).toEqual([format, vary])
  })

  test('that was asked for is that, whatever the client accepts', async () => {
    const got = await askImage(platform, plain, imagePath('/cat.jpg', 'width=64&format=png'), { accept: 'image/avif' })
    expect([(await seen(got)).format, got.headers.vary]).toEqual(['png', undefined])
  })

  test('is the source’s own, with its very bytes, where nothing smaller can be had', async () => {
    const own = (await visit(platform, plain.host, '/tiny.webp')).body
    const got = await askImage(platform, plain, imagePath('/tiny.webp', 'quality=100'), { accept: 'image/webp' })
    expect([got.headers['content-type'], got.body.equals(own)]).toEqual(['image/webp', true])
    const options = await askImage(platform, plain, imagePath('/tiny.webp', 'quality=100&format=png'))
    expect((await seen(options)).format).toBe('png')
  })
})

test('an image that moves is passed on as it is, and is one image whatever size was asked for', async () => {
  const own = (await visit(platform, plain.host, '/moving.gif')).body
  for (const query of ['width=16', 'width=32&format=webp', 'height=16&quality=5']) {
    const got = await askImage(platform, plain, imagePath('/moving.gif', query), { accept: 'image/avif' })
    expect([got.headers['content-type'], got.body.equals(own)]).toEqual(['image/gif', true])
  }
  expect(await storedImages(platform, plain.id, '/moving.gif')).toHaveLength(1)
})

test('an answer is safe to open, and is not sent twice', async () => {
  const path = imagePath('/dog-5f2a9c81.png', 'width=16', 'anything')
  const got = await askImage(platform, plain, path, { accept: 'image/webp' })
  expect(got.headers).toMatchObject({
    'x-content-type-options': 'nosniff',
    'content-security-policy': "script-src 'none'; frame-src 'none'; sandbox;",
    'content-disposition': 'inline; filename="dog-5f2a9c81.webp"',
    'content-length': String(got.body.length),
    // As the file's own headers say: its name changes with its content.
    'cache-control': 'public, max-age=31536000, immutable',
  })
  const etag = got.headers.etag ?? ''
  const again = await askImage(platform, plain, path, { accept: 'image/webp', 'if-none-match': `"x", W/${etag}` })
  expect([again.status, again.body.length, again.headers.etag, again.headers.vary]).toEqual([304, 0, etag, 'Accept'])
  expect((await askImage(platform, plain, path, { 'if-none-match': etag })).status).toBe(200) // another format
  const head = await visit(platform, plain.host, path, { method: 'HEAD', headers: { accept: 'image/webp' } })
  expect([head.status, head.headers['content-length'], head.body.length]).toEqual([200, String(got.body.length), 0])
  const own = await askImage(platform, plain, imagePath('/cat.jpg'))
  expect(own.headers['cache-control']).toBe('public, max-age=0, must-revalidate')
})

describe('what frameworks write', () => {
  test.each(['/_next/image', '/_next/image/', '/_vercel/image'])('is answered at %s', async (path) => {
    const url = `${path}?url=%2Fcat.jpg&w=64&q=75&dpl=x`
    const got = await askImage(platform, framework, url, { accept: 'image/avif,image/webp' })
    // By its own configuration: no AVIF, and copies are valid for two minutes.
    expect(await seen(got)).toEqual({ format: 'webp', width: 64, height: 32 })
    expect(got.headers).toMatchObject({
      'cache-control': 'public, max-age=120, must-revalidate',
      'content-security-policy': "default-src 'none'",
      'content-disposition': 'attachment; filename="cat.webp"',
    })
  })

  test('tells its own patience', async () => {
    const { body } = await platform.call(ana.token, `GET /deployments/${framework.id}/image-cache`)
    expect(body).toMatchObject({ enabled: true, policy: { minimumCacheSeconds: 120 } })
  })

  test.each([
    ['another width', nextPath('/cat.jpg', 65)],
    ['another quality', nextPath('/cat.jpg', 64, 51)],
    ['no width', '/_next/image?url=%2Fcat.jpg&q=75'],
    ['no quality', '/_next/image?url=%2Fcat.jpg&w=64'],
    ['no source', '/_next/image?w=64&q=75'],
    ['two sources', `${nextPath('/cat.jpg')}&url=x`],
    ['itself', nextPath('/_next/image')],
    ['another origin', nextPath('https://a.example/x')],
  ])('is refused for %s: %s', async (_, path) => {
    expect(errorOf(await askImage(platform, framework, path))).toEqual([400, 'image_request_invalid', 'no-store'])
  })

  test('is the deployment’s own where it has no images', async () => {
    expect((await askImage(platform, plain, nextPath('/cat.jpg'))).text).toBe('its own')
    expect((await askImage(platform, plain, '/_vercel/image?url=x')).status).toBe(404)
  })

  test('may be an SVG where the deployment says so, in which nothing runs', async () => {
    const got = await askImage(platform, framework, nextPath('/logo.svg'))
    expect([got.text, got.headers['content-type'], got.headers['content-disposition']]).toEqual([
      SVG,
      'image/svg+xml',
      'attachment; filename="logo.svg"',
    ])
    expect(got.headers['content-security-policy']).toBe("default-src 'none'")
  })
})

describe('a source', () => {
  test('is asked through the routes of the deployment, and redirects are followed', async () => {
    for (const source of ['/pretty/cat.jpg', '/moved', '/cat.jpg?v=1'])
      expect([source, (await askImage(platform, framework, imagePath(source, 'width=16'))).status]).toEqual([
        source,
        200,
      ])
    expect(errorOf(await askImage(platform, framework, imagePath('/moved-in-circles')))).toEqual([
      502,
      'image_source_failed',
      'no-store',
    ])
    // A file ignores the query.
    expect(await storedImages(platform, framework.id, '/cat.jpg?v=1')).toEqual([])
  })

  test('is asked as nobody in particular, and is nobody’s visit; the image is one', async () => {
    origin.show('/photo.jpg', await picture(100, 100))
    const secret = { cookie: 'session=1', authorization: 'Bearer x', 'x-forwarded-for': '198.51.100.7', 'x-own': 'me' }
    const path = imagePath('/origin/photo.jpg', 'width=16')
    for (const expected of ['miss', 'hit'])
      expect((await askImage(platform, framework, path, secret)).headers['x-cache']).toBe(expected.toUpperCase())
    const [options, ...more] = origin.received.filter(({ url }) => url === '/photo.jpg')
    expect(more).toEqual([])
    expect(options?.headers).not.toHaveProperty('x-own')
    for (const name of ['cookie', 'authorization', 'x-forwarded-for', 'x-real-ip'])
      expect(options?.headers).not.toHaveProperty(name)
    const [imageOnly = ''] = path.split('?')
    const ofPhoto = inArray(requestLogs.path, ['/origin/photo.jpg', imageOnly])
    const rows = await loggedRequests(platform, and(eq(requestLogs.deploymentId, framework.id), ofPhoto), 2)
    expect(rows.map(({ path, status, cacheStatus }) => `${path} ${status} ${cacheStatus}`).toSorted()).toEqual([
      `${imageOnly} 200 hit`,
      `${imageOnly} 200 miss`,
    ])
  })

  test('that changes is a new image: the old one is shown once more while the source is asked again', async () => {
    const [before, after] = [await picture(100, 100, 'png', 1), await picture(100, 100, 'png', 2)]
    origin.show('/changing.png', before)
    const get = () => askImage(platform, framework, imagePath('/origin/changing.png', 'width=16'))
    const first = await get()
    origin.show('/changing.png', after)
    platform.clock.advance(119_000) // its minimumCacheTTL is 120 s
    expect((await get()).headers['x-cache']).toBe('HIT')
    platform.clock.advance(2_000)
    const stale = await get()
    expect([stale.headers['x-cache'], stale.headers['cache-control'], stale.body.equals(first.body)]).toEqual([
      'STALE',
      'public, max-age=0, must-revalidate',
      true,
    ])
    await expect.poll(async () => (await get()).body.equals(first.body)).toBe(false)
    expect(origin.countOf('/changing.png')).toBe(2)
    expect(await storedImages(platform, framework.id, '/origin/changing.png')).toHaveLength(2)
  })

  test('that says how long it is good for is not asked before, and one that fails leaves what was there', async () => {
    origin.show('/lasting.png', await picture(100, 100, 'png'), { 'cache-control': 'max-age=60, s-maxage="600"' })
    const get = () => askImage(platform, framework, imagePath('/origin/lasting.png', 'width=16'))
    expect((await get()).headers['cache-control']).toBe('public, max-age=600, must-revalidate')
    origin.answer('/lasting.png', (_, outgoing) => outgoing.writeHead(500).end())
    platform.clock.advance(599_000)
    expect((await get()).headers['x-cache']).toBe('HIT')
    platform.clock.advance(2_000)
    expect((await get()).headers['x-cache']).toBe('STALE')
    await expect.poll(() => origin.countOf('/lasting.png')).toBe(2)
    await expect.poll(async () => (await get()).headers['x-cache']).toBe('HIT')
    // A source that answers 410 is no longer served.
    origin.answer('/lasting.png', (_, outgoing) => outgoing.writeHead(410).end())
    platform.clock.advance(601_000)
    await get()
    await expect.poll(async () => (await get()).status).toBe(404)
  })

  test.each<[string, number, string | undefined, number, string]>([
    ['404', 404, undefined, 404, 'image_source_missing'],
    ['410', 410, undefined, 404, 'image_source_missing'],
    ['403', 403, undefined, 502, 'image_source_failed'],
    ['500', 500, undefined, 502, 'image_source_failed'],
    ['a compressed answer', 200, 'gzip', 502, 'image_source_failed'],
  ])('of %s is %i', async (name, status, encoding, expected, code) => {
    const path = `/status-${encodeURIComponent(name)}`
    origin.answer(path, (_, outgoing) => {
      outgoing.writeHead(status, encoding === undefined ? {} : { 'content-encoding': encoding }).end('x')
    })
    expect(errorOf(await askImage(platform, framework, imagePath(`/origin${path}`)))).toEqual([
      expected,
      code,
      'no-store',
    ])
  })

  test('of more than 20 MB is 413, and is not read to its end', async () => {
    const left = Promise.withResolvers<void>()
    origin.answer('/endless', (_, outgoing) => {
      const chunk = Buffer.alloc(1_048_576)
      const write = (): void => void outgoing.write(chunk, (error) => (error ? undefined : write()))
      outgoing.writeHead(200)
      outgoing.on('close', () => left.resolve())
      write()
    })
    expect(errorOf(await askImage(platform, framework, imagePath('/origin/endless')))).toEqual([
      413,
      'image_too_large',
      'no-store',
    ])
    await left.promise
  })
})

/** Images that are being generated, or wait for a place. */
const imagesUnderWay = async (state: 'running' | 'waiting'): Promise<number | undefined> =>
  (await workUnderWay.get()).values.find(({ labels }) => labels['kind'] === 'image' && labels['state'] === state)?.value

test('ten who want the same image wait for one work', async () => {
  const held = origin.hold('/popular.jpg', await picture(200, 200))
  const path = imagePath('/origin/popular.jpg', 'width=64')
  const all = Array.from({ length: 10 }, () => askImage(platform, framework, path))
  await held.arrived
  held.release()
  // Ten separate jobs would not fit: there are four places.
  expect((await Promise.all(all)).map(({ status }) => status)).toEqual(Array.from({ length: 10 }, () => 200))
  expect(origin.countOf('/popular.jpg')).toBe(1)
  expect(await storedImages(platform, framework.id, '/origin/popular.jpg')).toHaveLength(1)
})

test('four sizes of a source wait for one answer of it', async () => {
  const held = origin.hold('/sizes.jpg', await picture(200, 200))
  const all = [16, 32, 48, 64].map((width) =>
    askImage(platform, framework, imagePath('/origin/sizes.jpg', `width=${width}`)),
  )
  await expect.poll(() => imagesUnderWay('running')).toBe(4)
  held.release()
  expect((await Promise.all(all)).map(({ status }) => status)).toEqual([200, 200, 200, 200])
  expect(origin.countOf('/sizes.jpg')).toBe(1)
})

test('a fifth new image waits for a place, what is there already does not, and too many are refused', async () => {
  await askImage(platform, framework, imagePath('/cat.jpg', 'width=16'))
  const paths = [1, 2, 3, 4].map((n) => `/many-${n}.jpg`)
  const held = await Promise.all(paths.map(async (path, n) => origin.hold(path, await picture(50, 50, 'jpeg', n))))
  const under = paths.map((path) => askImage(platform, framework, imagePath(`/origin${path}`)))
  await Promise.all(held.map(({ arrived }) => arrived))
  const waiting = Array.from({ length: 32 }, (_, n) =>
    askImage(
      platform,
      framework,
      imagePath('/tiny.webp', `format=png&width=${n < 16 ? 16 : 32}&quality=${((n % 16) + 1) * 5}`),
    ),
  )
  await expect.poll(() => imagesUnderWay('waiting')).toBe(32)
  const refused = await askImage(platform, framework, imagePath('/cat.jpg', 'width=1920&format=png'))
  expect([...errorOf(refused), refused.headers['retry-after']]).toEqual([429, 'image_busy', 'no-store', '1'])
  expect((await askImage(platform, framework, imagePath('/cat.jpg', 'width=16'))).headers['x-cache']).toBe('HIT')
  // Another deployment has its own places.
  expect((await askImage(platform, plain, imagePath('/cat.jpg', 'width=2000&format=png'))).status).toBe(200)
  for (const each of held) each.release()
  const answers = await Promise.all([...under, ...waiting])
  expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 36 }, () => 200))
  expect((await askImage(platform, framework, imagePath('/cat.jpg', 'width=1920&format=png'))).status).toBe(200)
})

test('slow sources of one organization leave places to another', async () => {
  const routes = [{ src: '^/origin/(.*)$', dest: `${origin.url}/$1` }]
  const slowOwner = await newOwner(platform)
  const sites = await Promise.all(
    [1, 2, 3].map(() => deploy(platform, slowOwner, { files: {}, output: { kind: 'build-output', routes } })),
  )
  const [first, second, third] = sites as [Deployed, Deployed, Deployed]
  const slow = [first, second].flatMap((site) => [1, 2, 3, 4].map((n) => ({ site, path: `/slow-${site.id}-${n}.jpg` })))
  const content = await picture(50, 50)
  const held = slow.map(({ path }) => origin.hold(path, content))
  const under = slow.map(({ site, path }) => askImage(platform, site, imagePath(`/origin${path}`)))
  await Promise.all(held.map(({ arrived }) => arrived))
  origin.show('/quick.jpg', content)
  const ninth = askImage(platform, third, imagePath('/origin/quick.jpg'))
  await expect.poll(() => imagesUnderWay('waiting')).toBe(1)
  expect((await askImage(platform, framework, imagePath('/origin/quick.jpg', 'width=48'))).status).toBe(200)
  for (const each of held) each.release()
  expect((await Promise.all([...under, ninth])).map(({ status }) => status)).toEqual(
    Array.from({ length: 9 }, () => 200),
  )
})
