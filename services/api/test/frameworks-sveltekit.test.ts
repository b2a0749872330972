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
} from './frameworks.ts'
import { unique } from './scenario.ts'

const variables = { SERVER_SECRET: `secret-${unique()}` }

describeFramework('SvelteKit', { build: buildFixture, variables }, (deploy) => {
  const site = deploy('sveltekit')
  const { get } = site

  test('pages are answered, prerendered ones and others', async () => {
    for (const [path, wanted] of [
      ['/', 'Home'],
      ['/about', 'About'],
      ['/posts/7', 'Post 7'],
      ['/visitor', 'Visitor'],
    ] as const) {
      const page = await get(path)
      expect(page.status, path).toBe(200)
      expect(page.headers['content-type'], path).toMatch(/^text\/html/)
      expect(page.text.replaceAll(/<!--.*?-->/g, ''), path).toContain(`>${wanted}</h1>`)
      expect(await get(path, {}, 'HEAD'), path).toMatchObject({ status: 200, text: '' })
    }
    expect(await get('/about/')).toMatchObject({ status: 308, headers: { location: '/about' } })
    // A page without actions takes no forms.
    expect((await get('/visitor', { origin: site.url }, 'POST')).status).toBe(405)
  })

  test('pages that are not there, and that throw, are the site’s own', async () => {
    for (const [path, status, wanted] of [
      ['/nothing', 404, 'Nothing is here'],
      ['/posts/none', 404, 'Nothing is here'],
      ['/boom', 500, 'It broke'],
    ] as const) {
      const page = await get(path)
      expect(page.status, path).toBe(status)
      expect(page.text.replaceAll(/<!--.*?-->/g, ''), path).toContain(`${wanted}, says the fixture`)
    }
  })

  test('endpoints answer by method, and hooks before them', async () => {
    expect(JSON.parse((await get('/api/echo?a=1')).text)).toEqual({ method: 'GET', query: { a: '1' } })
    const posted = await get('/api/echo', { 'content-type': 'application/json' }, 'POST', 'x'.repeat(100_000))
    expect([posted.status, JSON.parse(posted.text)]).toEqual([201, { method: 'POST', bytes: 100_000 }])
    expect((await get('/api/echo', {}, 'PUT')).status).toBe(405)
    expect(await get('/hook/answer')).toMatchObject({ status: 418, text: 'by the hook' })
    expect(await get('/hook/redirect')).toMatchObject({ status: 307, headers: { location: '/about' } })
    expect((await get('/visitor')).headers['x-from-hook']).toBe('passed')
  })

  test('what is slow comes in pieces', async () => {
    const pieces = await piecesOf(site, '/api/stream')
    expect(areInTurn(pieces, ['1', '2', '3'])).toBe(true)
    const page = await piecesOf(site, '/slow')
    expect(arrivalOf(page, 'Slow</h1>')).toBeLessThan(arrivalOf(page, 'The slow part') - 300)
  })

  test('a visitor’s own page has their cookies, and variables of the deployment', async () => {
    for (const who of ['ana', 'ben']) {
      const page = await get('/visitor', { cookie: `who=${who}`, 'user-agent': `agent of ${who}` })
      const [, data = ''] = /<main[^>]*>(.*?)<\/main>/s.exec(page.text) ?? []
      expect(data).toContain(`<p id="who">${who}</p>`)
      expect(data).toContain(`agent of ${who}`)
      expect(data).toContain('from the hook')
      expect(data).toContain(variables.SERVER_SECRET)
      expect(page.headers['set-cookie']?.join()).toContain('visited=yes')
    }
  })

  test('files with a hash are kept forever', async () => {
    const files = [...new Set((await get('/')).text.match(/_app\/immutable\/[^" ]+\.(?:js|css)/g))]
    expect(files.length).toBeGreaterThan(2)
    for (const path of files) {
      const file = await get(`/${path}`)
      expect([file.status, file.headers['cache-control']]).toEqual([200, 'public, immutable, max-age=31536000'])
    }
    const gone = await get('/_app/immutable/gone.js')
    expect([gone.status, gone.headers['cache-control']]).toEqual([404, 'no-store'])
  })

  test('pages that are kept are the same, then old once more, and then new', async () => {
    for (const path of ['/clock', '/posts/9']) await expectRenewal(site, path)
    const another = unique()
    expect((await get(`/posts/${another}`)).text).toContain(`Post ${another}</h1>`)
    const data = JSON.parse((await get('/posts/9/__data.json')).text)
    expect(data).toMatchObject({ type: 'data' })
  })

  test('pages that are kept know the parameters they ask for, and nothing else of a visitor', async () => {
    for (const q of ['one', 'two']) {
      const page = await get(`/clock?q=${q}&x=sly`, { cookie: 'who=sly', 'user-agent': 'sly', authorization: 'sly' })
      expect(page.status).toBe(200)
      expect(page.text).toContain(`"q":"${q}"`)
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
        ['/visitor', 'Visitor'],
        ['/slow', 'Slow'],
      ])
      await expect.poll(() => page.textContent('#slow')).toBe('The slow part')
      await page.goBack()
      await expect.poll(() => page.textContent('h1')).toBe('Visitor')
      expect(await page.evaluate('globalThis.isSame')).toBe(true)
      expect(await page.evaluate(`getComputedStyle(document.querySelector('main')).color`)).toBe('rgb(1, 2, 3)')
      expect(faults).toEqual([])
    })

    test('a form acts, with a script and without', async () => {
      for (const javaScriptEnabled of [true, false]) {
        const { page } = await open({ javaScriptEnabled })
        const faults = faultsOf(page)
        await page.goto(`${site.url}/form`, { waitUntil: 'networkidle' })
        await page.fill('input[name=name]', 'Ana')
        await page.click('#greeting button')
        await expect.poll(() => page.textContent('output')).toBe('Hello Ana')
        // Without a script the browser loads none, which counts as a failure.
        if (javaScriptEnabled) expect(faults).toEqual([])
      }
    })
  })
})
