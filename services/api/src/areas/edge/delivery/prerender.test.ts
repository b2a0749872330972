import { startPlatform, type TestEdge, type TestPlatform } from '@platform/testing/platform'
import { sql } from 'drizzle-orm'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { visit } from '../../../../test/deploy.ts'
import { logOf, newDeployment, untilEnded } from '../../../../test/deployments.ts'
import { handler } from '../../../../test/functions.ts'
import { type Counted, prerendered, type PrerenderSource, TOKEN } from '../../../../test/prerender.ts'
import { newOwner, type Owner } from '../../../../test/scenario.ts'
import type { ZipEntry } from '../../../../test/zip.ts'

/** While an edge hears notifications, what it knows does not age: only a notification makes it look again. */
const soon = { interval: 10 }

let platform: TestPlatform
let second: TestEdge
let ana: Owner
beforeAll(async () => {
  platform = await startPlatform({ hasWorker: true, env: { DEFAULT_PLAN: 'pro' } })
  second = await platform.addEdge()
  ana = await newOwner(platform)
})
afterAll(() => platform.close())

async function deploy(archive: readonly ZipEntry[]) {
  const { id } = await newDeployment(platform, ana, { archive })
  const { status, failureReason, label } = await untilEnded(platform, id)
  if (status !== 'ACTIVE') throw new Error(`${failureReason}\n${await logOf(platform, id)}`)
  const host = `${label}.${platform.api.appsUrl.host}`
  const get = (path: string, options: Parameters<typeof visit>[3] = {}, edge: TestEdge | TestPlatform = platform) =>
    visit(edge, host, path, options)
  const page = async (path: string, options?: Parameters<typeof visit>[3], edge?: TestEdge) => {
    const answer = await get(path, options, edge)
    return { ...answer, cache: answer.headers['x-cache'], seen: JSON.parse(answer.text) as Counted }
  }
  /** Sets how the Function answers from now on; resolves with how often it was called. Each edge has its own process. */
  const control = async (wanted: Record<string, string> = {}, edge?: TestEdge) =>
    Number((await get(`/control?${new URLSearchParams(wanted).toString()}`, {}, edge)).text)
  return { id, host, get, page, control }
}
const deployPages = (pages: Record<string, PrerenderSource>, more?: Parameters<typeof prerendered>[1]) =>
  deploy(prerendered(pages, more))

describe('a page that nobody has asked for', () => {
  test('is made once for all who ask at the same time', async () => {
    const site = await deployPages({ page: {} })
    await site.control({ wait: '300' })
    const before = await site.control({ wait: '300' })
    const pages = await Promise.all(Array.from({ length: 20 }, () => site.page('/page')))
    expect(new Set(pages.map(({ seen }) => seen.n))).toEqual(new Set([before + 1]))
    expect(pages.map(({ cache }) => cache)).toEqual(Array.from({ length: 20 }, () => 'MISS'))
    const kept = await site.page('/page')
    expect(kept).toMatchObject({ cache: 'HIT', seen: { n: before + 1 } })
    expect(kept.headers).toMatchObject({
      'cache-control': 'public, max-age=0, must-revalidate',
      age: expect.any(String),
    })
  })

  test('is what its build left, until that has become old', async () => {
    const site = await deployPages({
      page: { fallback: '<h1>built</h1>', config: { initialHeaders: { 'x-own': 'yes' }, initialStatus: 201 } },
    })
    const first = await site.get('/page')
    expect(first).toMatchObject({ status: 201, text: '<h1>built</h1>' })
    expect(first.headers).toMatchObject({
      'x-own': 'yes',
      'content-type': 'text/html; charset=utf-8',
      'x-cache': 'HIT',
    })
    platform.clock.advance(61_000)
    expect((await site.get('/page')).headers['x-cache']).toBe('STALE')
    await expect.poll(async () => (await site.get('/page')).status, soon).toBe(200)
    expect((await site.page('/page')).cache).toBe('HIT')
  })

  test('is the placeholder of all its like while it is made, where pages differ by a parameter', async () => {
    const site = await deployPages(
      { 'posts/[slug]': { fallback: '<p>loading</p>', config: { allowQuery: ['slug'], passQuery: true } } },
      { routes: [{ src: '/posts/(?<slug>[^/]+)', dest: '/posts/[slug]?slug=$slug' }] },
    )
    expect((await site.get('/posts/one')).text).toBe('<p>loading</p>')
    await expect.poll(async () => (await site.get('/posts/one')).text, soon).toContain('"url":"/posts/one?slug=one"')
    expect((await site.get('/posts/two')).text).toBe('<p>loading</p>')
  })

  test('tells nothing of the visitor to whoever makes it', async () => {
    const site = await deployPages({
      page: {
        config: { allowHeader: ['accept-language', 'cookie', 'x-forwarded-for', 'X-Variant'], allowQuery: ['a'] },
      },
    })
    const { seen } = await site.page('/page?a=1&secret=2', {
      headers: {
        cookie: 'session=mine',
        authorization: 'Bearer mine',
        'user-agent': 'mine',
        'accept-language': 'de',
        'x-variant': 'b',
        'x-own': 'mine',
        referer: 'http://mine/',
        'x-matched-path': '/other',
        'x-invocation-id': 'mine',
      },
    })
    expect(seen).toMatchObject({ method: 'GET', url: '/page' })
    expect(Object.keys(seen.headers).toSorted()).toEqual([
      'accept-language',
      'connection',
      'host',
      'x-forwarded-host',
      'x-forwarded-proto',
      'x-invocation-id',
      'x-matched-path',
      'x-request-id',
      'x-variant',
    ])
    expect(seen.headers).toMatchObject({ host: site.host, 'x-matched-path': '/page' })
    expect(seen.headers['x-invocation-id']).not.toBe('mine')
    // Another visitor gets that page; one with another language does not.
    expect(
      (
        await site.page('/page?a=1', {
          headers: { 'accept-language': 'de', 'x-variant': 'b', cookie: 'session=other' },
        })
      ).seen.n,
    ).toBe(seen.n)
    expect((await site.page('/page?a=1', { headers: { 'accept-language': 'fr', 'x-variant': 'b' } })).seen.n).not.toBe(
      seen.n,
    )
  })
})

describe('what a page differs by', () => {
  test('is the parameters that its build names, in whatever order and spelling', async () => {
    const site = await deployPages({ page: { config: { allowQuery: ['a', 'b'], passQuery: true } } })
    const { seen } = await site.page('/page?a=x&b=y&c=1')
    expect(seen.url).toBe('/page?a=x&b=y')
    for (const same of ['/page?b=y&a=x', '/page?a=%78&b=y&d=2']) expect((await site.page(same)).seen.n).toBe(seen.n)
    for (const other of ['/page?a=x', '/page?a=y&b=x', '/page?a=x&a=x&b=y'])
      expect((await site.page(other)).seen.n).not.toBe(seen.n)
  })

  test('is told in a header without `passQuery`, where a route took it from the path', async () => {
    const routes = [{ src: '/by/(?<who>[^/]+)', dest: '/page?who=$who' }]
    const site = await deployPages({ page: {} }, { routes })
    const { seen } = await site.page('/by/ana?who=ben&x=1')
    expect(seen).toMatchObject({
      url: '/by/ana',
      headers: { 'x-now-route-matches': 'who=ana', 'x-matched-path': '/page' },
    })
    expect((await site.page('/by/ana?x=1')).seen.n).toBe(seen.n)
    expect((await site.page('/by/ben?x=1')).seen.headers).toMatchObject({ 'x-now-route-matches': 'who=ben' })
  })

  test('is all of the query without them, and none of it with an empty list', async () => {
    const site = await deployPages({ any: {}, none: { config: { allowQuery: [] } } })
    expect((await site.page('/any?x=1')).seen.n).not.toBe((await site.page('/any?x=2')).seen.n)
    expect((await site.page('/none?x=1')).seen.n).toBe((await site.page('/none?x=2')).seen.n)
  })
})

describe('an old page', () => {
  test('is shown while one call makes it anew, on whichever edge', async () => {
    const site = await deployPages({ page: {} })
    const { seen: old } = await site.page('/page')
    await site.page('/page', {}, second)
    platform.clock.advance(61_000)
    const edges = [undefined, second]
    const callsOf = async (wanted: Record<string, string>) => {
      const calls = await Promise.all(edges.map((edge) => site.control(wanted, edge)))
      return calls.reduce((sum, n) => sum + n, 0)
    }
    const before = await callsOf({ held: '1' })
    const stale = await Promise.all(
      edges.flatMap((edge) => Array.from({ length: 10 }, () => site.page('/page', {}, edge))),
    )
    expect(
      new Set(stale.map(({ seen, cache }) => `${String(seen.headers['x-invocation-id'])} ${String(cache)}`)),
    ).toEqual(new Set([`${String(old.headers['x-invocation-id'])} STALE`]))
    await callsOf({})
    for (const edge of edges)
      await expect.poll(async () => (await site.page('/page', {}, edge)).cache, soon).toBe('HIT')
    const anew = await Promise.all(edges.map((edge) => site.page('/page', {}, edge)))
    expect(new Set(anew.map(({ seen }) => seen.headers['x-invocation-id'])).size).toBe(1)
    // One call for the page and two to ask for the count, on each of the two.
    expect(await callsOf({})).toBe(before + 5)
  })

  test('stays where it cannot be made anew', async () => {
    const site = await deployPages({ page: {} })
    const { seen: good } = await site.page('/page')
    platform.clock.advance(61_000)
    await site.control({ status: '500' })
    expect((await site.page('/page')).cache).toBe('STALE')
    await expect.poll(() => site.control({ status: '500' })).toBeGreaterThan(good.n + 2)
    expect(await site.page('/page')).toMatchObject({ status: 200, cache: 'STALE', seen: { n: good.n } })
  })

  test('is not shown any more once its time is over', async () => {
    const site = await deployPages({ page: { config: { expiration: 60, staleExpiration: 120 } } })
    const { seen: old } = await site.page('/page')
    platform.clock.advance(121_000)
    const page = await site.page('/page')
    expect(page.cache).toBe('MISS')
    expect(page.seen.n).toBeGreaterThan(old.n)
  })

  test('is as old as it says itself, and kept for ever where its build says so', async () => {
    const site = await deployPages({ page: { config: { expiration: false } }, own: { config: { expiration: false } } })
    await site.control({ control: 's-maxage=10, stale-while-revalidate=20' })
    await site.page('/own')
    await site.control()
    await site.page('/page')
    platform.clock.advance(11_000)
    expect((await site.page('/own')).cache).toBe('STALE')
    platform.clock.advance(86_400_000 * 300)
    expect((await site.page('/page')).cache).toBe('HIT')
  })
})

describe('an answer that is no page', () => {
  test('is not kept: private ones, and failures', async () => {
    const site = await deployPages({ page: {}, failing: {} })
    for (const control of ['private, s-maxage=60', 'no-store']) {
      await site.control({ control })
      const [one, two] = [await site.page('/page'), await site.page('/page')]
      expect([one.cache, two.cache]).toEqual(['BYPASS', 'BYPASS'])
      expect(two.seen.n).toBeGreaterThan(one.seen.n)
    }
    await site.control({ status: '503' })
    expect((await site.get('/failing')).status).toBe(500)
    await site.control()
    expect((await site.page('/failing')).cache).toBe('MISS')
  })

  test('of 500 is the page of the site for that, or its own where its build says so', async () => {
    const site = await deployPages(
      { hidden: {}, shown: { config: { exposeErrBody: true } } },
      {
        files: { '500.html': 'our own 500' },
        routes: [{ handle: 'error' }, { src: '/.*', dest: '/500.html', status: 500 }],
      },
    )
    await site.control({ status: '502' })
    expect(await site.get('/hidden')).toMatchObject({ status: 500, text: 'our own 500' })
    const shown = await site.page('/shown')
    expect(shown).toMatchObject({ status: 502, cache: 'BYPASS', seen: { url: '/shown' } })
  })

  test('of 404 is kept, and no cookie goes to everybody', async () => {
    const site = await deployPages({ gone: {}, page: {} })
    await site.control({ status: '404' })
    expect([(await site.page('/gone')).status, (await site.page('/gone')).cache]).toEqual([404, 'HIT'])
    await site.control({ cookie: 'a=b' })
    const answers = [await site.page('/page'), await site.page('/page')]
    expect(answers.map(({ cache, headers }) => [cache, headers['set-cookie']])).toEqual([
      ['MISS', undefined],
      ['HIT', undefined],
    ])
  })
})

describe('the bypass token', () => {
  test('shows its holder what the Function makes now, for them alone', async () => {
    const site = await deployPages({ page: {} })
    const { seen: kept } = await site.page('/page')
    const own = await site.page('/page', { headers: { cookie: `a=b; __prerender_bypass=${TOKEN}` } })
    expect(own.seen.headers).toMatchObject({ cookie: `a=b; __prerender_bypass=${TOKEN}` })
    expect(own.cache).toBe('BYPASS')
    for (const cookie of ['__prerender_bypass=wrong', '__prerender_bypass='])
      expect((await site.page('/page', { headers: { cookie } })).seen.n).toBe(kept.n)
  })

  test('makes a page anew that everybody sees at once, here and soon elsewhere', async () => {
    const site = await deployPages({ page: {} })
    const { seen: old } = await site.page('/page')
    await site.page('/page', {}, second)
    for (const token of ['wrong', ''])
      expect((await site.page('/page', { headers: { 'x-prerender-revalidate': token } })).seen.n).toBe(old.n)
    const anew = await site.page('/page', { headers: { 'x-prerender-revalidate': TOKEN, cookie: 'mine=1' } })
    expect(anew.headers).toMatchObject({ 'x-cache': 'REVALIDATED', 'x-vercel-cache': 'REVALIDATED' })
    expect(anew.seen.headers).not.toHaveProperty('cookie')
    expect(anew.seen.n).toBeGreaterThan(old.n)
    expect(await site.page('/page')).toMatchObject({ cache: 'HIT', seen: { n: anew.seen.n } })
    await expect.poll(async () => (await site.page('/page', {}, second)).seen.n, soon).toBe(anew.seen.n)
  })

  test('is told where what was made could not be stored', async () => {
    const site = await deployPages({ page: {} })
    const { seen: old } = await site.page('/page')
    const broken = vi.spyOn(platform.api.isrPages, 'store').mockRejectedValue(new Error('It is full'))
    try {
      expect((await site.get('/page', { headers: { 'x-prerender-revalidate': TOKEN } })).status).toBe(500)
    } finally {
      broken.mockRestore()
    }
    expect((await site.page('/page')).seen.n).toBe(old.n)
  })

  test('makes only what is there, where that is asked', async () => {
    const site = await deployPages({ page: {} })
    const headers = { 'x-prerender-revalidate': TOKEN, 'x-prerender-revalidate-if-generated': '1' }
    const before = await site.control()
    expect((await site.get('/page', { headers })).status).toBe(404)
    expect(await site.control()).toBe(before + 1)
    await site.page('/page')
    expect((await site.page('/page', { headers })).cache).toBe('REVALIDATED')
  })

  test('serves res.revalidate() of Next.js, which asks the edge of its own machine', async () => {
    const site = await deployPages({ page: {}, own: {} })
    const renew = async (query: string) => (await site.get(`/control?renew=${query}`)).text
    const { seen: old } = await site.page('/page')
    expect(await renew('/page')).toBe('renewed')
    const anew = await site.page('/page')
    expect(anew.cache).toBe('HIT')
    expect(anew.seen.n).toBeGreaterThan(old.n)
    expect(await renew('/nothing')).toBe('Error: Invalid response 404')
    expect(await renew('/nothing&only')).toBe('renewed')
  })

  test('is told to nobody: not in lists, not to the Function of another visitor', async () => {
    const site = await deployPages({ page: {} })
    const [row] = await platform.api.db.execute<{ output: string }>(
      sql`select output::text as output from deployments where id = ${site.id}`,
    )
    expect(row?.output).toContain('bypassTokenHash')
    expect(row?.output).not.toContain(TOKEN)
    expect(await logOf(platform, site.id)).not.toContain(TOKEN)
    const { text } = await site.get('/.vercel/output/functions/page.prerender-config.json')
    expect(text).not.toContain(TOKEN)
    expect((await site.get('/page.prerender-config.json')).status).toBe(404)
  })
})

test('whoever the build names, and other methods, are answered by the Function', async () => {
  const site = await deployPages({
    page: {
      config: {
        experimentalBypassFor: [
          { type: 'header', key: 'next-action' },
          { type: 'header', key: 'user-agent', value: '.*[Bb]ot.*' },
        ],
      },
    },
  })
  const { seen: kept } = await site.page('/page')
  for (const headers of [{ 'next-action': 'x' }, { 'user-agent': 'A Bot' }]) {
    const own = await site.page('/page', { headers: { ...headers, 'x-own': 'yes' } })
    expect(own).toMatchObject({ cache: 'BYPASS', seen: { headers: { 'x-own': 'yes' } } })
  }
  const posted = await site.page('/page', { method: 'POST', body: 'x' })
  expect(posted).toMatchObject({ cache: 'BYPASS', seen: { method: 'POST' } })
  const head = await site.get('/page', { method: 'HEAD' })
  expect([head.status, head.text, head.headers['x-cache']]).toEqual([200, '', 'HIT'])
  expect((await site.page('/page')).seen.n).toBe(kept.n)
})

test('while the database does not answer, what is known is shown, and the rest is made for each visitor', async () => {
  const group = { config: { group: 1 } }
  const site = await deployPages({ page: {}, built: { fallback: 'built' }, other: group, 'other.rsc': group })
  const { seen } = await site.page('/page')
  await site.page('/page')
  const down = vi.spyOn(platform.api.db, 'execute').mockRejectedValue(new Error('It is away'))
  try {
    expect(await site.page('/page')).toMatchObject({ cache: 'HIT', seen: { n: seen.n } })
    expect(await site.get('/built')).toMatchObject({ status: 200, text: 'built' })
    expect(await site.page('/other').catch((error: unknown) => error)).toMatchObject({ status: 200, cache: 'BYPASS' })
  } finally {
    down.mockRestore()
  }
  expect((await site.page('/other')).cache).toBe('MISS')
})

test('a client that has the page is told so', async () => {
  const site = await deployPages({ page: {} })
  const { headers } = await site.page('/page')
  const again = await site.get('/page', { headers: { 'if-none-match': String(headers['etag']) } })
  expect([again.status, again.text, again.headers['etag']]).toEqual([304, '', headers['etag']])
})

test('pages of a group are made anew together, by one process and with one name for it', async () => {
  const group = { config: { group: 1, allowQuery: [] } }
  const site = await deployPages({ page: group, 'page.rsc': group, other: { config: { group: 2 } } })
  const first = [await site.page('/page'), await site.page('/page.rsc'), await site.page('/other')]
  platform.clock.advance(61_000)
  await site.page('/page')
  await expect.poll(async () => (await site.page('/page')).cache, soon).toBe('HIT')
  const [html, rsc] = [await site.page('/page'), await site.page('/page.rsc')]
  expect([html.cache, rsc.cache, (await site.page('/other')).cache]).toEqual(['HIT', 'HIT', 'STALE'])
  expect(rsc.seen.n).toBeGreaterThan(first[1]?.seen.n ?? 0)
  expect(rsc.seen.url).toBe('/page.rsc')
  expect(html.seen.headers['x-invocation-id']).toBe(rsc.seen.headers['x-invocation-id'])
})

test('a page of a group that fails leaves the others as they are made', async () => {
  const code = handler(`
    globalThis.calls = (globalThis.calls ?? 0) + 1
    if (req.url === '/page.rsc' && globalThis.calls > 2) { res.socket.destroy(); return }
    res.end(JSON.stringify({ n: globalThis.calls, url: req.url, headers: {} }))`)
  const group = { config: { group: 1, allowQuery: [] } }
  const site = await deployPages({ page: group, 'page.rsc': group }, { code })
  const rsc = await site.page('/page.rsc')
  await site.page('/page')
  platform.clock.advance(61_000)
  await site.page('/page')
  await expect.poll(async () => (await site.page('/page')).cache, soon).toBe('HIT')
  expect(await site.page('/page.rsc')).toMatchObject({ cache: 'STALE', seen: { n: rsc.seen.n } })
})

describe('a tag', () => {
  const tagged = async () => {
    const site = await deployPages({
      page: {},
      other: {},
      built: { fallback: 'built', config: { initialHeaders: { 'x-next-cache-tags': 'posts,built' } } },
    })
    await site.control({ tags: 'posts,authors' })
    await site.page('/page')
    await site.control({ tags: 'authors' })
    await site.page('/other')
    await site.control()
    await site.page('/page', {}, second)
    return site
  }

  test('that is revalidated makes its pages anew at once here, soon elsewhere, and no other', async () => {
    const site = await tagged()
    const { headers } = await site.page('/page')
    expect(headers).not.toHaveProperty('x-next-cache-tags')
    await platform.api.isrTags.revalidate(site.id, ['posts'], 0)
    expect((await site.page('/page')).cache).toBe('MISS')
    expect((await site.page('/other')).cache).toBe('HIT')
    expect((await site.get('/built')).headers['x-cache']).toBe('MISS')
    await expect
      .poll(async () => (await site.page('/page', {}, second)).seen.n, soon)
      .toBe((await site.page('/page')).seen.n)
  })

  test('that may be shown for a while makes its pages stale', async () => {
    const site = await tagged()
    await platform.api.isrTags.revalidate(site.id, ['posts'], undefined)
    expect((await site.page('/page')).cache).toBe('STALE')
    await expect.poll(async () => (await site.page('/page')).cache, soon).toBe('HIT')
  })

  test('that has expired stays so when it is revalidated more gently', async () => {
    const site = await tagged()
    await site.control({ tags: 'posts' })
    await platform.api.isrTags.revalidate(site.id, ['posts'], 0)
    await platform.api.isrTags.revalidate(site.id, ['posts'], undefined)
    expect((await site.page('/page')).cache).toBe('MISS')
    await platform.api.isrTags.revalidate(site.id, ['posts'], undefined)
    expect((await site.page('/page')).cache).toBe('STALE')
  })

  test('that is about to be revalidated is waited for', async () => {
    const site = await tagged()
    const end = platform.api.isrTags.begin(site.id)
    const page = site.page('/page')
    await platform.api.isrTags.revalidate(site.id, ['posts'], 0)
    end()
    expect((await page).cache).toBe('MISS')
  })

  test('that is revalidated while a page is made leaves that page outdated', async () => {
    const site = await tagged()
    await platform.api.isrTags.revalidate(site.id, ['posts'], 0)
    const slowly = { tags: 'posts', wait: '1000' }
    let calls = await site.control(slowly)
    const slow = site.page('/page')
    // Asking is itself a call; the page's is one more.
    await expect.poll(async () => (await site.control(slowly)) - ++calls, soon).toBe(1)
    await platform.api.isrTags.revalidate(site.id, ['posts'], 0)
    const { seen } = await slow
    await site.control({ tags: 'posts' })
    const next = await site.page('/page')
    expect(next.cache).toBe('MISS')
    expect(next.seen.n).toBeGreaterThan(seen.n)
  })
})

describe('a page that is kept in part', () => {
  const STATE = 'state of é'
  const length = Buffer.byteLength(STATE)
  const type = (n: number) => `application/x-nextjs-pre-render; state-length=${n}; origin="text/html; charset=utf-8"`
  const code = handler(`
    const chunks = []
    for await (const chunk of req) chunks.push(chunk)
    const body = Buffer.concat(chunks).toString()
    if (req.method === 'POST') {
      res.setHeader('content-type', 'text/html')
      if (req.url.includes('fail')) { res.statusCode = 500; res.end('no'); return }
      await new Promise((done) => setTimeout(done, 300))
      res.end('<p>' + body + ' ' + req.url + ' ' + req.headers['next-resume'] + ' ' + (req.headers.cookie ?? '-') + '</p>')
      return
    }
    res.setHeader('content-type', ${JSON.stringify(type(length))})
    res.end(${JSON.stringify(STATE)} + '<h1>made</h1>')`)
  const page = (n = length) => ({
    fallback: `${STATE}<h1>built</h1>`,
    config: {
      allowQuery: [],
      initialHeaders: { 'content-type': type(n), 'cache-control': 'private, no-store' },
      chain: { outputPath: 'page', headers: { 'next-resume': '1' } },
    },
  })

  test('is sent at once, and the rest as it is made for this visitor', async () => {
    const site = await deployPages({ page: page() }, { code })
    const answer = await site.get('/page?x=1', { headers: { cookie: 'mine=1' } })
    expect(answer.text).toBe(`<h1>built</h1><p>${STATE} /page?x=1 1 mine=1</p>`)
    expect(answer.headers).toMatchObject({
      'content-type': 'text/html; charset=utf-8',
      'cache-control': 'private, no-cache, no-store, max-age=0, must-revalidate',
    })
    expect((await site.get('/page')).text).toContain(' -</p>')
    const head = await site.get('/page', { method: 'HEAD' })
    expect([head.text, head.headers['content-type']]).toEqual(['', 'text/html; charset=utf-8'])
    platform.clock.advance(61_000)
    await site.get('/page')
    await expect.poll(async () => (await site.get('/page')).text, soon).toMatch(/^<h1>made<\/h1><p>state of é/)
  })

  test('is split where its state ends, whether that is counted in bytes or in characters', async () => {
    const site = await deployPages({ page: page(STATE.length) }, { code })
    expect((await site.get('/page')).text).toBe(`<h1>built</h1><p>${STATE} /page 1 -</p>`)
  })

  test('reaches nobody as it is: not where it is long, and not where nobody knows how to split it', async () => {
    const long = handler(`
      const malformed = req.url.includes('malformed')
      if (req.method === 'POST') { res.end('<p>rest</p>'); return }
      res.setHeader('content-type', malformed ? 'application/x-nextjs-pre-render' : ${JSON.stringify(type(5))})
      res.end('STATE<h1>made</h1>' + 'x'.repeat(3_000_000))`)
    const chain = { outputPath: 'long' }
    const site = await deployPages({ long: { config: { chain } }, malformed: { config: { chain } } }, { code: long })
    for (const cache of ['MISS', 'HIT', 'HIT']) {
      const { headers, text } = await site.get('/long')
      expect([headers['x-cache'], text.slice(0, 12), text.slice(-14)]).toEqual([
        cache,
        '<h1>made</h1>'.slice(0, 12),
        'xxx<p>rest</p>',
      ])
    }
    const malformed = await site.get('/malformed')
    expect([malformed.status, malformed.headers['x-platform-error']]).toEqual([502, 'function_crashed'])
    expect(malformed.text).not.toContain('STATE')
  })

  test('breaks off where the rest cannot be made', async () => {
    const site = await deployPages({ page: page() }, { code })
    await expect(site.get('/page?fail')).rejects.toThrow(/aborted|hang up|terminated/)
  })
})
