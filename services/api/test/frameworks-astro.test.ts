import { describeInChromium } from '@platform/testkit/chromium'
import { expect, test } from 'vitest'
import {
  arrivalOf,
  areInTurn,
  buildFixture,
  describeFramework,
  expectRenewal,
  faultsOf,
  followLinks,
  piecesOf,
  untilStale,
} from './frameworks.ts'
import { unique } from './scenario.ts'

const variables = { SERVER_SECRET: `secret-${unique()}` }

describeFramework('Astro', { build: buildFixture, variables }, (deploy) => {
  const site = deploy('astro')
  const { get } = site

  test('pages are answered, prerendered ones and others', async () => {
    for (const [path, wanted] of [
      ['/', 'Home'],
      ['/about', 'About'],
      ['/posts/7', 'Post 7'],
      ['/live/visitor', 'Visitor'],
    ] as const) {
      const page = await get(path)
      expect(page.status, path).toBe(200)
      expect(page.headers['content-type'], path).toMatch(/^text\/html/)
      expect(page.text, path).toContain(`>${wanted}</h1>`)
      expect(await get(path, {}, 'HEAD'), path).toMatchObject({ status: 200, text: '' })
    }
    expect((await get('/about', {}, 'POST')).status).toBe(405)
  })

  test('pages that are not there, and that throw, are the site’s own', async () => {
    for (const path of ['/nothing', '/posts/none', '/live/nothing']) {
      const page = await get(path)
      expect(page.status, path).toBe(404)
      expect(page.text, path).toContain('Nothing is here, says the fixture')
    }
    const boom = await get('/live/boom')
    expect(boom.status).toBe(500)
    expect(boom.text).toContain('It broke, says the fixture')
  })

  test('redirects and the middleware', async () => {
    expect(await get('/old')).toMatchObject({ status: 301, headers: { location: '/about' } })
    expect(await get('/old/3')).toMatchObject({ status: 302, headers: { location: '/posts/3' } })
    const answer = await get('/live/echo?middleware=answer')
    expect([answer.status, answer.text]).toEqual([418, '{"by":"middleware"}'])
    expect(await get('/live/echo?middleware=redirect')).toMatchObject({
      status: 307,
      headers: { location: '/about' },
    })
    expect((await get('/live/echo?middleware=rewrite')).text).toContain('>Form</h1>')
    expect((await get('/live/visitor')).headers['x-from-middleware']).toBe('passed')
    expect((await get('/live/visitor')).text).toContain('from the middleware')
  })

  test('endpoints answer by method', async () => {
    expect(JSON.parse((await get('/live/echo?a=1')).text)).toEqual({ method: 'GET', query: { a: '1' } })
    const posted = await get('/live/echo', { 'content-type': 'application/json' }, 'POST', 'x'.repeat(100_000))
    expect([posted.status, JSON.parse(posted.text)]).toEqual([201, { method: 'POST', bytes: 100_000 }])
    // Astro has no 405 of its own.
    expect((await get('/live/echo', { origin: site.url }, 'PUT')).status).toBe(404)
  })

  test('what is slow comes in pieces', async () => {
    const pieces = await piecesOf(site, '/live/stream')
    expect(areInTurn(pieces, ['1', '2', '3'])).toBe(true)
    const page = await piecesOf(site, '/live/slow')
    expect(arrivalOf(page, 'Slow</h1>')).toBeLessThan(arrivalOf(page, 'The slow part') - 300)
  })

  test('a visitor’s own page has their cookies, and variables of the deployment', async () => {
    for (const who of ['ana', 'ben']) {
      const page = await get('/live/visitor?q=1', { cookie: `who=${who}`, 'user-agent': `agent of ${who}` })
      expect(page.text).toMatch(new RegExp(`<p id="who"[^>]*>${who}</p>`))
      expect(page.text).toContain(`agent of ${who}`)
      expect(page.text).toContain('/live/visitor?q=1')
      expect(page.text).toContain(variables.SERVER_SECRET)
      expect(page.headers['set-cookie']).toEqual(['visited=yes; Path=/live'])
    }
  })

  test('files with a hash are kept forever', async () => {
    const home = (await get('/')).text
    const files = [...new Set(home.match(/\/_astro\/[^" ]+\.(?:js|webp)/g))]
    expect(files).toHaveLength(2)
    for (const path of files) {
      const file = await get(path)
      expect([file.status, file.headers['cache-control']]).toEqual([200, 'public, max-age=31536000, immutable'])
    }
    expect((await get('/robots.txt')).headers['cache-control']).toBe('public, max-age=0, must-revalidate')
    expect((await get('/_astro/gone.js')).status).toBe(404)
  })

  test('images of pages that are made for each request', async () => {
    const [, path = ''] = /<img src="([^"]+)"/.exec((await get('/live/picture')).text) ?? []
    const image = await get(path.replaceAll('&amp;', '&'))
    expect([image.status, image.headers['content-type']]).toEqual([200, 'image/webp'])
  })

  test('pages that are kept are the same, then old once more, and then new', async () => {
    for (const path of ['/clock', '/posts/9']) await expectRenewal(site, path)
    const another = unique()
    expect((await get(`/posts/${another}`)).text).toContain(`Post ${another}</h1>`)
  })

  test('pages that are kept have nothing of a visitor in them', async () => {
    for (let n = 0; n < 3; n++) {
      await untilStale(site, '/clock')
      const page = await get('/clock?q=sly', { cookie: 'who=sly', 'user-agent': 'sly', authorization: 'sly' })
      expect(page.status).toBe(200)
      expect(page.text).not.toContain('sly')
    }
  })

  describeInChromium('in a browser', (open) => {
    test('links lead through the site without a load, and nothing goes wrong', async () => {
      const { page } = await open()
      const faults = faultsOf(page)
      await page.goto(site.url, { waitUntil: 'networkidle' })
      await page.click('#counter')
      await expect.poll(() => page.textContent('#counter')).toBe('1')
      await page.evaluate('globalThis.isSame = true')
      await followLinks(page, [
        ['/about', 'About'],
        ['/clock', 'Clock'],
        ['/posts/7', 'Post 7'],
        ['/live/slow', 'Slow'],
        ['/live/visitor', 'Visitor'],
      ])
      await expect.poll(() => page.textContent('#island')).toBe('An island of ana')
      await page.goBack()
      await expect.poll(() => page.textContent('h1')).toBe('Slow')
      expect(await page.evaluate('globalThis.isSame')).toBe(true)
      expect(await page.evaluate(`getComputedStyle(document.querySelector('main')).color`)).toBe('rgb(1, 2, 3)')
      expect(faults).toEqual([])
    })

    test('a form acts', async () => {
      const { page } = await open()
      const faults = faultsOf(page)
      await page.goto(`${site.url}/live/form`, { waitUntil: 'networkidle' })
      await page.fill('input[name=name]', 'Ana')
      await page.click('#greeting button')
      await expect.poll(() => page.textContent('output')).toBe('Hello Ana')
      expect(faults).toEqual([])
    })
  })
})
