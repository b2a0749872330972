import { describeInChromium } from '@platform/testkit/chromium'
import type { Page } from 'playwright-core'
import { beforeAll, describe, expect, test } from 'vitest'
import { giveHostname, type Got, visit } from './deploy.ts'
import {
  arrivalOf,
  areInTurn,
  becomesNewer,
  buildFixture,
  describeFramework,
  faultsOf,
  followLinks,
  keptAs,
  piecesOf,
  type Site,
  timeIn,
  untilStale,
} from './frameworks.ts'
import { unique } from './scenario.ts'

const GREETING = 'Bonjour'
/** What is built in, and what only the deployment has. */
const built = { NEXT_PUBLIC_GREETING: GREETING }
const variables = { ...built, SERVER_SECRET: `secret-${unique()}` }
const RSC = 'text/x-component'

/** Next.js' own server leads to the address by which a browser would have asked. */
const flightOf =
  (site: Site) =>
  async (path: string, headers: Record<string, string>): Promise<Got> => {
    const answer = await site.get(path, headers)
    return answer.status === 307 ? site.get(String(answer.headers.location), headers) : answer
  }

const build = (name: string) => buildFixture(name, { vercel: 'nextjs', variables: built })

describeFramework('Next.js', { build, variables }, (deploy, isSource) => {
  describe('with the App Router and the Pages Router', () => {
    const site = deploy('next')
    const { get } = site
    const getFlight = flightOf(site)

    describe('pages', () => {
      test('are answered, static ones and dynamic ones', async () => {
        for (const [path, wanted] of [
          ['/', '<h1>Home</h1>'],
          ['/', GREETING],
          ['/docs', '<h1>Docs</h1>'],
          ['/docs/guides', 'Section <!-- -->guides'],
          ['/docs/guides/start', 'Topic <!-- -->guides'],
          ['/docs/a%20b/%C3%A9', '<h1>Topic'],
          ['/docs/a/b/c/d?n=7', 'c d'],
          ['/closed/a', 'Closed <!-- -->a'],
          ['/legacy/rendered?q=asked', 'Rendered <!-- -->asked'],
          ['/legacy/1', 'Fallback <!-- -->1'],
        ] as const) {
          const page = await get(path)
          expect(page, path).toMatchObject({ status: 200, headers: { 'content-type': 'text/html; charset=utf-8' } })
          expect(page.text, path).toContain(wanted)
        }
      })

      test('answer HEAD, and refuse other methods', async () => {
        for (const path of ['/', '/clock', '/visitor', '/legacy', '/posts/1']) {
          const head = await get(path, {}, 'HEAD')
          expect(head, path).toMatchObject({
            status: 200,
            text: '',
            headers: { 'content-type': 'text/html; charset=utf-8' },
          })
        }
        for (const path of ['/', '/clock', '/legacy', '/legacy/1'])
          for (const method of ['POST', 'PUT', 'DELETE'])
            expect((await get(path, {}, method)).status, `${method} ${path}`).toBe(405)
      })

      test('that are not there, and that throw, are the site’s own', async () => {
        for (const path of ['/nothing', '/docs-nothing/at/all', '/posts/none', '/closed/b']) {
          const page = await get(path)
          expect(page.status, path).toBe(404)
          expect(page.text, path).toContain('Nothing is here, says the fixture')
        }
        const boom = await get('/boom')
        expect(boom.status).toBe(500)
        // The browser shows the fixture's own, below.
        expect(boom.text).toContain('id="__next_error__"')
        const legacy = await get('/legacy/boom')
        expect(legacy.status).toBe(500)
        expect(legacy.text).toContain('A page of the Pages Router broke, says the fixture')
        expect((await get('/api/boom')).status).toBe(500)
        expect((await get('/posts/broken')).status).toBe(500)
      })

      test('come in pieces where they wait for something', async () => {
        const pieces = await piecesOf(site, '/slow')
        expect(arrivalOf(pieces, 'Waiting')).toBeLessThan(arrivalOf(pieces, 'The slow part') - 300)
      })
    })

    describe('routes', () => {
      test('answer by method', async () => {
        expect(JSON.parse((await get('/api/echo?a=1&b=2')).text)).toEqual({
          method: 'GET',
          query: { a: '1', b: '2' },
        })
        const posted = await get('/api/echo', { 'content-type': 'text/plain' }, 'POST', 'x'.repeat(200_000))
        expect(posted.status).toBe(201)
        expect(JSON.parse(posted.text)).toEqual({ method: 'POST', bytes: 200_000, type: 'text/plain' })
        expect((await get('/api/echo', {}, 'PUT')).status).toBe(405)
        expect(await get('/api/echo', {}, 'HEAD')).toMatchObject({ status: 200, text: '' })
        expect((await get('/api/echo', {}, 'OPTIONS')).headers['allow']).toBe('GET, HEAD, OPTIONS, POST')
        expect(JSON.parse((await get('/edge')).text)).toEqual({ runtime: 'edge', path: '/edge' })
      })

      test('of the Pages Router have its helpers', async () => {
        const options = await get(
          '/api/hello?name=ana',
          { cookie: 'a=1', 'content-type': 'application/json' },
          'POST',
          '{"b":2}',
        )
        expect(JSON.parse(options.text)).toEqual({ hello: 'ana', body: { b: 2 }, cookies: { a: '1' } })
        expect(await get('/api/hello', {}, 'DELETE')).toMatchObject({ status: 405, headers: { allow: 'GET, POST' } })
      })

      test('stream', async () => {
        const pieces = await piecesOf(site, '/api/stream')
        expect(pieces.map(({ text }) => text).join('')).toBe('1\n2\n3\n')
        expect(areInTurn(pieces, ['1', '2', '3'])).toBe(true)
      })

      test('see the variables of the deployment', async () => {
        expect(JSON.parse((await get('/api/environment')).text)).toEqual({
          secret: variables.SERVER_SECRET,
          greeting: GREETING,
          env: 'production',
        })
      })

      test('go on after their answer', async () => {
        expect((await get('/api/after')).text).toBe('answered')
        const path = `GET /deployments/${site.id}/runtime-logs`
        await expect
          .poll(async () => (await site.platform.call(site.owner.token, path)).text)
          .toContain('after the answer')
      })
    })

    describe('what the configuration and the proxy say', () => {
      test.each([
        ['/old', 308, '/docs'],
        ['/old/a/b/c', 307, '/docs/a/b/c'],
        ['/old?q=1', 308, '/docs?q=1'],
        ['/docs/', 308, '/docs'],
      ])('%s redirects with %i to %s', async (path, status, to) => {
        const { status: got, headers } = await get(path)
        expect([got, headers.location]).toEqual([status, to])
      })

      test('conditions, rewrites and headers', async () => {
        expect((await get('/beta')).status).toBe(404)
        expect((await get('/beta', { cookie: 'beta=1' })).headers.location).toBe('/docs/beta/start')
        expect((await get('/before')).text).toContain('<h1>Docs</h1>')
        expect((await get('/manual/paper')).text).toContain('Section <!-- -->paper')
        // Next.js' own server shows a route the query that its visitor wrote.
        const query = isSource ? {} : { path: 'a/b' }
        expect(JSON.parse((await get('/fallback/a/b')).text)).toMatchObject({ query })
        for (const path of ['/docs', '/docs/guides', '/docs/guides/start'])
          expect((await get(path)).headers['x-config'], path).toBe('docs')
        expect((await get('/')).headers).not.toHaveProperty('x-config')
      })

      test('the proxy answers, redirects, rewrites, and passes headers on', async () => {
        const answer = await get('/proxy/answer', {}, 'POST', 'body')
        expect(answer.status).toBe(418)
        expect(JSON.parse(answer.text)).toEqual({ by: 'proxy', method: 'POST' })
        const redirect = await get('/proxy/redirect')
        expect([redirect.status, new URL(redirect.headers.location ?? '', site.url).pathname]).toEqual([307, '/docs'])
        expect((await get('/proxy/rewrite')).text).toContain('Topic <!-- -->proxy<!-- --> <!-- -->rewritten')
        const cookie = await get('/proxy/cookie')
        expect(cookie.headers['set-cookie']?.join()).toMatch(/^proxied=yes; Path=\/; HttpOnly$/)
        const seen = await get('/visitor')
        expect(seen.headers['x-proxy']).toBe('passed')
        expect(seen.text).toContain('<p id="proxy">seen</p>')
      })
    })

    describe('the address of a visitor', () => {
      let hosts: string[]
      beforeAll(async () => {
        hosts = [site.host, await giveHostname(site.platform, site.owner.applicationId)]
      })

      describe.each(['http', 'https'])('by %s', (scheme) => {
        /** The site by the deployment's hostname and by its application's. */
        let sites: Pick<Site, 'get' | 'url'>[]
        beforeAll(async () => {
          const { platform } = site
          const edge = scheme === 'http' ? platform : await platform.addEdge({ APPS_URL: 'https://apps.example.net' })
          sites = hosts.map((known) => {
            const host = known.replace(platform.api.appsUrl.host, edge.api.appsUrl.host)
            return {
              url: `${scheme}://${host}`,
              get: (path, headers = {}, method = 'GET', body) =>
                visit(edge, host, path, { method, headers, ...(body !== undefined && { body }) }),
            }
          })
        })

        test('is what every part of the site sees', async () => {
          for (const { get, url } of sites) {
            const wanted = { host: new URL(url).host, forwarded: url, wrong: [] }
            for (const path of ['/api/address?a=1', '/edge/address?a=1', '/proxy/address?a=1']) {
              const seen = JSON.parse((await get(path)).text) as object
              expect(seen, path).toEqual({ ...wanted, url: url + path, nextUrl: url + path })
            }
            const legacy = '/api/legacy-address'
            expect(JSON.parse((await get(legacy)).text)).toEqual({ ...wanted, url: legacy })
            const page = (await get('/address')).text
            expect(JSON.parse(decode(/<p id="page">(.*?)<\/p>/.exec(page)?.[1] ?? ''))).toEqual(wanted)
            const { status, headers } = await submit({ get, url }, '/address', formOf(page, 'report'))
            const { origin, pathname, searchParams } = new URL(headers.location ?? '', url)
            expect([status, origin, pathname]).toEqual([303, url, '/address'])
            expect(JSON.parse(searchParams.get('action') ?? '')).toEqual(wanted)
          }
        })

        test('is where every part of the site leads', async () => {
          for (const { get, url } of sites) {
            for (const path of [
              '/api/address',
              '/edge/address',
              '/proxy/redirect',
              '/address',
              '/api/legacy-address',
            ]) {
              const { status, headers } = await get(`${path}?to=/docs`)
              const { origin, pathname } = new URL(headers.location ?? '', url)
              expect([status, origin, pathname], path).toEqual([307, url, '/docs'])
            }
            expect((await get('/proxy/rewrite')).text).toContain('Topic <!-- -->proxy<!-- --> <!-- -->rewritten')
          }
        })

        test('is where an action finds the page that it leads to', async () => {
          for (const { get, url } of sites) {
            const [name = ''] = Object.keys(formOf((await get('/address')).text, 'report'))
            const action = { 'next-action': name.replace('$ACTION_ID_', ''), accept: RSC, origin: url }
            const headers = { ...action, 'content-type': 'text/plain;charset=UTF-8' }
            const answer = await get('/address', headers, 'POST', '[]')
            expect(answer.headers['content-type']).toBe(RSC)
            expect(answer.headers['x-action-redirect']).toMatch(`${url}/address?`)
            expect(answer.text).toContain('"children":"Address"')
          }
        })
      })
    })

    describe('files', () => {
      test('with a hash in their name are kept forever, others are asked for again', async () => {
        const home = (await get('/')).text
        const files = [...new Set(home.match(/\/_next\/static\/[^"?\\]+\.(?:js|css)/g))]
        expect(files.length).toBeGreaterThan(2)
        for (const path of files) {
          const file = await get(path)
          expect(file.status, path).toBe(200)
          expect(file.headers['cache-control'], path).toMatch(/^public, ?max-age=31536000, ?immutable$/)
        }
        const robots = await get('/robots.txt')
        expect(robots.text).toContain('User-agent')
        expect(robots.headers['cache-control']).not.toContain('immutable')
        expect((await get('/robots.txt', { 'if-none-match': robots.headers.etag ?? '' })).status).toBe(304)
        expect((await get('/_next/static/chunks/gone.js')).status).toBe(404)
      })

      test('that are images are made smaller', async () => {
        const page = (await get('/picture')).text
        const sources = [...page.matchAll(/src="(\/_next\/image[^"]+)"/g)].map(([, path = '']) =>
          path.replaceAll('&amp;', '&'),
        )
        expect(sources).toHaveLength(2)
        for (const path of sources) {
          const image = await get(path, { accept: 'image/webp' })
          expect([image.status, image.headers['content-type']], path).toEqual([200, 'image/webp'])
        }
        expect((await get('/_next/image?url=%2Fpicture.png&w=63&q=75')).status).toBe(400)
      })
    })

    describe('what the router of the browser asks for', () => {
      test('is text/x-component, with and without a page that is kept', async () => {
        for (const path of [
          '/',
          '/docs',
          '/clock',
          '/posts/1',
          '/posts/fresh-rsc',
          '/visitor',
          '/docs/guides',
          '/docs/guides/start',
        ]) {
          const answer = await getFlight(`${path}?_rsc=abcde`, { rsc: '1' })
          expect([answer.status, answer.headers['content-type']], path).toEqual([200, RSC])
          expect(answer.text, path).not.toContain('<!DOCTYPE')
          expect(answer.headers['vary'], path).toContain('rsc')
          const page = await get(path)
          expect(page.headers['content-type'], path).toBe('text/html; charset=utf-8')
        }
      })

      test('ahead of time too, by segments', async () => {
        for (const path of ['/', '/docs', '/posts/1', '/visitor'])
          expect((await getFlight(path, { rsc: '1', 'next-router-prefetch': '1' })).headers['content-type'], path).toBe(
            RSC,
          )
        for (const path of ['/', '/docs', '/posts/1']) {
          const headers = { rsc: '1', 'next-router-prefetch': '1', 'next-router-segment-prefetch': '/_tree' }
          const tree = await getFlight(path, headers)
          expect([tree.status, tree.headers['content-type']], path).toEqual([200, RSC])
          expect(tree.headers['x-nextjs-postponed'], path).toBeDefined()
        }
      })

      test('is JSON of pages of the Pages Router', async () => {
        const build = /"buildId":"([^"]+)"/.exec((await get('/legacy')).text)?.[1]
        for (const [path, wanted] of [
          ['legacy', { time: expect.any(Number) }],
          ['legacy/1', { id: '1' }],
          ['legacy/by-data', { id: 'by-data' }],
          ['legacy/blocking/by-data', { id: 'by-data' }],
          ['legacy/rendered', { q: '' }],
        ] as const) {
          const data = await get(`/_next/data/${build}/${path}.json`, { 'x-nextjs-data': '1' })
          expect(data.status, path).toBe(200)
          expect(data.headers['content-type'], path).toMatch(/^application\/json/)
          expect(JSON.parse(data.text), path).toMatchObject({ pageProps: wanted })
        }
        // Where there is a proxy it may be anywhere: the browser is told nothing, and loads the page.
        if (!isSource)
          expect((await get(`/_next/data/${build}/gone.json`, { 'x-nextjs-data': '1' })).text.trim()).toBe('{}')
      })
    })

    describe('pages that are kept', () => {
      test('are the same while they are fresh, then old once more, and then new', async () => {
        for (const path of ['/clock', '/kept', '/legacy']) {
          const time = await becomesNewer(site, path, 0)
          expect(timeIn((await get(path)).text), path).toBe(time)
          const old = await untilStale(site, path)
          await becomesNewer(site, path, timeIn(old.text))
        }
      })

      test('are made of the path when somebody first asks', async () => {
        const path = `/posts/${unique()}`
        const first = await get(path)
        expect(first.status).toBe(200)
        const again = await get(path)
        expect(timeIn(again.text)).toBe(timeIn(first.text))
        expect(keptAs(again)).toBe('HIT')
        expect(timeIn((await get(`/posts/${unique()}`)).text)).not.toBe(timeIn(first.text))
      })

      test('are one whatever the query is', async () => {
        const time = timeIn((await get('/posts/1')).text)
        for (const query of ['?a=1', '?b=2', '?nxtPid=2'])
          expect(timeIn((await get(`/posts/1${query}`)).text)).toBe(time)
      })

      test('have nothing of a visitor in them', async () => {
        for (const path of ['/kept', '/kept/json']) {
          await untilStale(site, path)
          for (let n = 0; n < 4; n++) {
            const page = await get(`${path}?q=sly`, {
              cookie: 'who=sly',
              'user-agent': 'sly',
              'x-sly': 'sly',
              authorization: 'sly',
            })
            expect(page.status).toBe(200)
            expect(page.text, path).not.toContain('sly')
            expect(page.headers['set-cookie']).toBeUndefined()
          }
        }
        for (const who of ['ana', 'ben']) {
          const page = await get('/visitor', { cookie: `who=${who}`, 'user-agent': `agent of ${who}` })
          expect(page.text).toContain(`<p id="cookie">${who}</p>`)
          expect(page.text).toContain(`<p id="agent">agent of ${who}</p>`)
          expect(page.headers['cache-control']).toMatch(/private|no-store/)
        }
      })

      test('are new at once when the site says so, by path and by tag', async () => {
        for (const [path, query] of [
          ['/posts/1', 'path=/posts/1'],
          ['/posts/1', 'path=/posts/[id]&type=page'],
          ['/tagged', 'tag=time'],
        ] as const) {
          const old = timeIn((await get(path)).text)
          expect(keptAs(await get(path)), path).toBe('HIT')
          expect((await get(`/api/revalidate?${query}`, {}, 'POST')).status).toBe(200)
          const renewed = await get(path)
          expect(timeIn(renewed.text), query).toBeGreaterThan(old)
          expect(keptAs(renewed), query).toBe('MISS')
          expect((await get(path)).text, query).toBe(renewed.text)
        }
      })

      test('are old once more where the tag allows it', async () => {
        const time = timeIn((await get('/tagged')).text)
        await get('/api/revalidate?stale=time', {}, 'POST')
        expect(timeIn((await get('/tagged')).text)).toBe(time)
        await becomesNewer(site, '/tagged', time)
      })

      test('of the Pages Router wait, or show that they are being made', async () => {
        const name = unique()
        const shown = (await get(`/legacy/${name}`)).text
        expect(shown).toContain('Being made')
        // Next.js' own server makes it once the page in the browser asks for its data.
        const build = /"buildId":"([^"]+)"/.exec(shown)?.[1]
        if (isSource) await get(`/_next/data/${build}/legacy/${name}.json`, { 'x-nextjs-data': '1' })
        await expect.poll(async () => (await get(`/legacy/${name}`)).text).toContain(`Fallback <!-- -->${name}`)
        const blocking = await get(`/legacy/blocking/${name}`)
        expect(blocking.text).toContain(`Blocking <!-- -->${name}`)
        expect(timeIn((await get(`/legacy/blocking/${name}`)).text)).toBe(timeIn(blocking.text))
      })

      test('of the Pages Router are new once it says so', async () => {
        for (const path of ['/legacy', '/legacy/1']) {
          const time = timeIn((await get(path)).text)
          const renewed = await get(`/api/renew?path=${path}`)
          expect([renewed.status, renewed.text], path).toEqual([200, '{"revalidated":true}'])
          expect(timeIn((await get(path)).text), path).toBeGreaterThan(time)
        }
      })

      test('of the Pages Router may be missing, or lead elsewhere', async () => {
        const build = /"buildId":"([^"]+)"/.exec((await get('/legacy')).text)?.[1]
        expect((await get(`/_next/data/${build}/legacy/none.json`, { 'x-nextjs-data': '1' })).status).toBe(404)
        const missing = await get('/legacy/none')
        expect(missing.status).toBe(404)
        const moved = await get(`/_next/data/${build}/legacy/moved.json`, { 'x-nextjs-data': '1' })
        expect(JSON.parse(moved.text).pageProps.__N_REDIRECT).toBe('/legacy/1')
      })

      test('are shown unpublished to who is in draft mode, and to nobody else', async () => {
        const on = await get('/api/draft/on')
        const cookie = (on.headers['set-cookie'] ?? []).map((line) => line.split(';')[0]).join('; ')
        expect(cookie).toContain('__prerender_bypass=')
        const draft = await get('/clock', { cookie })
        expect(draft.text).toContain('<p id="draft">draft</p>')
        const next = await get('/clock', { cookie })
        expect(timeIn(next.text)).toBeGreaterThan(timeIn(draft.text))
        expect((await get('/clock')).text).toContain('<p id="draft">published</p>')
        const forged = await get('/clock', { cookie: '__prerender_bypass=guessed' })
        expect(forged.text).toContain('<p id="draft">published</p>')
        const off = await get('/api/draft/off', { cookie })
        expect(off.headers['set-cookie']?.join()).toMatch(/__prerender_bypass=;/)
      })
    })

    describe('Server Actions', () => {
      test('work without a script', async () => {
        const page = (await get('/form')).text
        const form = formOf(page, 'greeting')
        const sent = await submit(site, '/form', { ...form, name: 'Ana' })
        expect(sent.status).toBe(200)
        expect(sent.text).toContain('<output>Hello Ana</output>')
        const remembered = await submit(site, '/form', { ...formOf(page, 'remember'), who: 'ana' })
        expect([remembered.status, remembered.headers.location]).toEqual([303, '/visitor'])
        expect(remembered.headers['set-cookie']?.join()).toContain('who=ana')
      })

      test('of another origin are refused', async () => {
        const form = formOf((await get('/form')).text, 'greeting')
        const sent = await submit(site, '/form', { ...form, name: 'Eve' }, 'http://elsewhere.example')
        expect(sent.text).not.toContain('Hello Eve')
        expect(sent.status).toBeGreaterThanOrEqual(400)
      })
    })

    describeInChromium('in a browser', (open) => {
      test('links lead through the site without a load, and nothing goes wrong', async () => {
        const { page } = await open()
        const faults = faultsOf(page)
        await visitInBrowser(page, site.url, '#counter')
        await page.click('#counter')
        await expect.poll(() => page.textContent('#counter')).toBe(`${GREETING} 1`)
        await page.evaluate('globalThis.isSame = true')
        const heading = () => page.textContent('h1')
        await followLinks(page, [
          ['/docs', 'Docs'],
          ['/docs/guides', 'Section guides'],
          ['/docs/guides/start', 'Topic guides start'],
          ['/docs/guides/start/first/step?n=1', 'Rest guides start first step 1'],
          ['/clock', 'Clock'],
          ['/posts/1', 'Post 1'],
          ['/visitor', 'Visitor'],
          ['/slow', 'Slow'],
          ['/picture', 'Picture'],
          ['/form', 'Form'],
        ])
        await page.goBack()
        await expect.poll(heading).toBe('Picture')
        expect(await page.evaluate('globalThis.isSame')).toBe(true)
        // The style of a file.
        expect(await page.evaluate(`getComputedStyle(document.querySelector('main')).color`)).toBe('rgb(1, 2, 3)')
        await expect
          .poll(() => page.evaluate(`[...document.images].filter(({ naturalWidth }) => naturalWidth > 0).length`))
          .toBe(2)
        await page.click('a[href="/legacy"]')
        await expect.poll(heading).toBe('Legacy')
        for (const [link, wanted] of [
          ['/legacy/unknown', 'Fallback unknown'],
          ['/legacy/blocking/1', 'Blocking 1'],
          ['/legacy/rendered', 'Rendered '],
        ] as const) {
          await page.goto(`${site.url}/legacy`)
          await page.click(`a[href="${link}"]`)
          await expect.poll(heading, { message: link }).toBe(wanted)
        }
        expect(faults).toEqual([])
      })

      test('a page that is not there, and one that throws, are the site’s own', async () => {
        const { page } = await open()
        const faults = faultsOf(page)
        await visitInBrowser(page, `${site.url}/nothing`, 'h1')
        expect(await page.textContent('h1')).toBe('Nothing is here, says the fixture')
        expect(faults.filter((fault) => !fault.includes('404'))).toEqual([])
        await page.goto(`${site.url}/boom`)
        await expect.poll(() => page.textContent('h1')).toBe('It broke, says the fixture')
        expect(await page.textContent('#digest')).toMatch(/^\d+$/)
      })

      test('Server Actions act, set cookies, redirect, and renew what is kept', async () => {
        const { page } = await open()
        const faults = faultsOf(page)
        await visitInBrowser(page, `${site.url}/form`, '#greeting button')
        await page.evaluate('globalThis.isSame = true')
        await page.fill('#greeting input[name=name]', 'Ana')
        await page.click('#greeting button')
        await expect.poll(() => page.textContent('output')).toBe('Hello Ana')

        const tagged = timeIn((await get('/tagged')).text)
        const post = timeIn((await get('/posts/2')).text)
        const answered = page.waitForResponse((response) => response.request().method() === 'POST')
        await page.click('#renew button')
        expect((await answered).status()).toBe(200)
        expect(timeIn((await get('/tagged')).text)).toBeGreaterThan(tagged)
        const again = page.waitForResponse((response) => response.request().method() === 'POST')
        await page.click('#renew-post button')
        await again
        expect(timeIn((await get('/posts/2')).text)).toBeGreaterThan(post)

        await page.fill('#remember input[name=who]', 'ana')
        await page.click('#remember button')
        await expect.poll(() => page.textContent('h1')).toBe('Visitor')
        expect(await page.textContent('#cookie')).toBe('ana')
        expect(await page.evaluate('globalThis.isSame')).toBe(true)
        expect(faults).toEqual([])
      })

      test('draft mode is on for this browser alone', async () => {
        const { page } = await open()
        await page.goto(`${site.url}/api/draft/on`)
        await page.goto(`${site.url}/clock`)
        expect(await page.textContent('#draft')).toBe('draft')
        const { page: other } = await open()
        await other.goto(`${site.url}/clock`)
        expect(await other.textContent('#draft')).toBe('published')
        await page.goto(`${site.url}/api/draft/off`)
        await page.goto(`${site.url}/clock`)
        expect(await page.textContent('#draft')).toBe('published')
      })
    })
  })

  describe('with Cache Components', () => {
    const site = deploy('next-ppr')
    const { get } = site
    const getFlight = flightOf(site)

    test('the shell comes first, and what it waits for later', async () => {
      // The first request starts the Function.
      await get('/')
      for (const [path, shell, slow] of [
        ['/', '<h1>Shell</h1>', 'The slow part'],
        ['/products/1', 'Product 1', 'The basket of'],
      ] as const) {
        const pieces = await piecesOf(site, path)
        expect(arrivalOf(pieces, shell), path).toBeLessThan(arrivalOf(pieces, slow) - 250)
      }
      const times = [await get('/'), await get('/')].map(({ text }) => /made at (?:<!-- -->)?(\d+)/.exec(text)?.[1])
      expect(times[0]).not.toBe(times[1])
    })

    test('a path that nobody knew has a shell too', async () => {
      const id = unique()
      const pieces = await piecesOf(site, `/products/${id}`)
      expect(arrivalOf(pieces, '<h1>Shop</h1>')).toBeLessThan(arrivalOf(pieces, 'The basket of') - 250)
      expect(pieces.map(({ text }) => text).join('')).toContain(`Product ${id}`)
    })

    test('what is a visitor’s own is in nobody else’s page', async () => {
      const basketOf = ({ text }: Got) => /The basket of (?:<!-- -->)?(\w+)/.exec(text)?.[1]
      const answer = ['ana', 'ben', 'cy'].map((who) => get('/products/1', { cookie: `who=${who}` }))
      expect((await Promise.all(answer)).map(basketOf)).toEqual(['ana', 'ben', 'cy'])
      expect(basketOf(await get('/products/1'))).toBe('nobody')
      const page = await get('/visitor', { 'user-agent': 'mine alone' })
      expect(page.text).toContain('mine alone')
      expect((await get('/visitor', { 'user-agent': 'another' })).text).not.toContain('mine alone')
    })

    test('what is cached is renewed by its life and by its tag', async () => {
      const time = timeIn((await get('/tagged')).text)
      await becomesNewer(site, '/cached', timeIn((await untilStale(site, '/cached')).text))
      expect(timeIn((await get('/tagged')).text)).toBe(time)
      await get('/api/revalidate?tag=days', {}, 'POST')
      expect(timeIn((await get('/tagged')).text)).toBeGreaterThan(time)
    })

    test('a crawler gets the page as a whole', async () => {
      const page = await get('/products/1', { 'user-agent': 'Mozilla/5.0 (compatible; Bingbot/2.0)' })
      expect(page.status).toBe(200)
      expect(page.text).toContain('The basket of')
    })

    test('the router gets segments ahead of time, and the rest when it goes there', async () => {
      for (const path of ['/', '/products/1', '/products/7', '/cached']) {
        const headers = { rsc: '1', 'next-router-prefetch': '1', 'next-router-segment-prefetch': '/_tree' }
        const tree = await getFlight(path, headers)
        expect([tree.status, tree.headers['content-type']], path).toEqual([200, RSC])
        const whole = await getFlight(path, { rsc: '1' })
        expect([whole.status, whole.headers['content-type']], path).toEqual([200, RSC])
      }
    })

    describeInChromium('in a browser', (open) => {
      test('links lead through the site, and nothing goes wrong', async () => {
        const { page } = await open()
        const faults = faultsOf(page)
        await visitInBrowser(page, site.url, 'a[href="/cached"]')
        expect(await page.textContent('#slow')).toContain('The slow part')
        await page.evaluate('globalThis.isSame = true')
        for (const [link, wanted] of [
          ['/cached', 'Cached'],
          ['/products/1', 'Product 1'],
          ['/products/7', 'Product 7'],
          ['/visitor', 'HeadlessChrome'],
          ['/', 'The slow part'],
        ] as const) {
          await page.click(`a[href="${link}"]`)
          await expect
            .poll(() => page.locator('main:visible').first().textContent(), { message: link })
            .toContain(wanted)
        }
        expect(await page.evaluate('globalThis.isSame')).toBe(true)
        expect(faults).toEqual([])
      })
    })
  })
})

/**
 * Opens a page, and waits until React has taken over an element of it: before that, a click is the browser's own. When the network comes
 * to rest says less: a page asks ahead for what it links to, for as long as the Functions of all those take to start.
 */
async function visitInBrowser(page: Page, url: string, selector: string) {
  await page.goto(url)
  const isTakenOver = `Object.keys(document.querySelector(${JSON.stringify(selector)}) ?? {}).some((key) => key.startsWith('__reactProps'))`
  await page.waitForFunction(isTakenOver)
}

/** A text out of HTML. */
const decode = (text: string): string => text.replaceAll('&quot;', '"').replaceAll('&amp;', '&')

/** The hidden fields of a form by its id. */
function formOf(page: string, id: string): Record<string, string> {
  const form = new RegExp(`<form[^>]*id="${id}"[^>]*>(.*?)</form>`, 's').exec(page)?.[1] ?? ''
  return Object.fromEntries(
    [...form.matchAll(/<input type="hidden" name="([^"]*)"(?: value="([^"]*)")?/g)].map(([, name = '', value = '']) => [
      decode(name),
      decode(value),
    ]),
  )
}

/** Sends a form as a browser without a script does. */
function submit(
  site: Pick<Site, 'get' | 'url'>,
  path: string,
  fields: Record<string, string>,
  origin = site.url,
): Promise<Got> {
  const boundary = `----${unique()}`
  const body = Object.entries(fields)
    .map(([name, value]) => `--${boundary}\r\ncontent-disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`)
    .join('')
  const headers = { 'content-type': `multipart/form-data; boundary=${boundary}`, origin }
  return site.get(path, headers, 'POST', `${body}--${boundary}--\r\n`)
}
