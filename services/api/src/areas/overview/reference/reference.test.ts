import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { env as environment } from 'node:process'
import { promisify } from 'node:util'
import { runInNewContext } from 'node:vm'
import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import { platformName } from '@platform/look/name'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { describeInChromium, type OpenPage } from '@platform/testkit/chromium'
import axe, { type AxeResults } from 'axe-core'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { newOwner } from '../../../../test/scenario.ts'
import { referenceStyle } from './reference-style.ts'

let platform: TestPlatform
let withoutClient: TestPlatform
beforeAll(async () => {
  ;[platform, withoutClient] = await Promise.all([startPlatform(), startPlatform({ env: { DOCS_CLIENT_ID: '' } })])
})
afterAll(() => Promise.all([platform.close(), withoutClient.close()]))

const textOf = (html: string): string =>
  html
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&quot;', '"')
    .replaceAll('&#39;', "'")
    .replaceAll('&amp;', '&')

/** The blocks of code on the first page, as a reader copies them: how to get a token, a request in three languages, two answers. */
async function codeBlocks({ call }: TestPlatform): Promise<string[]> {
  const { text } = await call(null, 'GET /docs')
  return [...text.matchAll(/<pre[^>]*><code>([^]*?)<\/code>/g)].map(([, html]) => textOf(html ?? ''))
}

/** Runs what a reader copies. env: the variables that it names. before: what the reader has set up. */
async function runInShell(code: string, env: Record<string, string>, before = ''): Promise<string> {
  const { stdout } = await promisify(execFile)('bash', ['-c', `${before}\n${code}`], {
    env: { ...environment, ...env },
  })
  return stdout
}

/** Sends a GET and returns the body as transferred, which fetch would decode. */
async function getBytes(
  path: string,
  acceptEncoding: string,
): Promise<{ headers: Record<string, string>; bytes: Buffer }> {
  const outgoing = request(`${platform.apiUrl}${path}`, { headers: { 'accept-encoding': acceptEncoding } }).end()
  const [incoming] = (await once(outgoing, 'response')) as [IncomingMessage]
  const bytes = Buffer.concat(await incoming.toArray())
  return { headers: incoming.headers as Record<string, string>, bytes }
}

describe('without a browser', () => {
  test('the page names files of this origin alone, under a policy that holds it to that (A §1)', async () => {
    const page = await platform.call(null, 'GET /docs')
    expect([page.status, page.headers['content-type'], page.headers['cache-control']]).toEqual([
      200,
      'text/html; charset=UTF-8',
      'no-cache',
    ])
    const policy = page.headers['content-security-policy'] ?? ''
    const nonce = /nonce-([^']+)'/.exec(policy)?.[1] ?? 'none'
    expect(policy.split('; ')).toEqual([
      "default-src 'none'",
      "script-src 'self'",
      `style-src-elem 'nonce-${nonce}'`,
      "style-src-attr 'unsafe-inline'",
      "img-src 'self' data:",
      "font-src 'self'",
      `connect-src 'self' ${platform.apiUrl} ${platform.idpUrl}`,
      "base-uri 'none'",
      "form-action 'none'",
      "frame-ancestors 'none'",
    ])
    expect(page.text).toContain(`content="${nonce}"`)
    const again = await platform.call(null, 'GET /docs')
    expect(again.headers['content-security-policy']).not.toBe(policy)

    const references = [...page.text.matchAll(/<(?:script|link)[^>]* (?:src|href)="([^"]+)"/g)].map(
      ([, url]) => url ?? '',
    )
    const style = references.find((url) => url.endsWith('.css')) ?? 'none'
    const { text: css } = await platform.call(null, `GET ${style}`)
    const fonts = [...css.matchAll(/url\(([^)]+)\)/g)].map(([, file]) => `/docs/assets/${file}`)
    const assets = [...references, ...fonts]
    expect(assets.map((url) => url.replace(/[0-9a-f]{16}/, 'HASH')).toSorted()).toEqual([
      '/docs/assets/icon.HASH.svg',
      '/docs/assets/inter-latin-ext.HASH.woff2',
      '/docs/assets/inter-latin.HASH.woff2',
      '/docs/assets/scalar.HASH.js',
      '/docs/assets/start.HASH.js',
      '/docs/assets/style.HASH.css',
    ])
    for (const url of assets) {
      const { status, headers } = await platform.call(null, `GET ${url}`)
      expect([url, status, headers['cache-control']]).toEqual([url, 200, 'public, max-age=31536000, immutable'])
    }
  })

  test('the mark and the name lead from the reference to the account site', async () => {
    const { text } = await platform.call(null, 'GET /docs')
    const [, inner = ''] = new RegExp(`<a href="${platform.idpUrl}/">([^]*?)</a>`).exec(text) ?? []
    expect(inner).toMatch(new RegExp(`^<svg class="mark"[^]*</svg> ${platformName}$`))
    expect(text).toContain(`<title>${platformName} API reference</title>`)
  })

  test('the mark of the reference leads to the console where there is one', async () => {
    const consoleUrl = 'http://localhost:4444'
    const another = await startPlatform({ env: { CONSOLE_URL: consoleUrl } })
    const { text } = await another.call(null, 'GET /docs')
    expect(text).toContain(`<a href="${consoleUrl}/">`)
    await another.close()
  })

  test('the first page of the reference shows a request in curl, JavaScript and the SDK: each gets the answer beside it', async () => {
    const { token } = await newOwner(platform)
    const [, curl = '', javascript = '', sdk = '', answer = '', error = ''] = await codeBlocks(platform)
    const expected = JSON.parse(answer) as { items: object[]; total: number }

    const byCurl = JSON.parse(await runInShell(curl, { TOKEN: token })) as typeof expected
    expect(Object.keys(byCurl)).toEqual(Object.keys(expected))
    expect(byCurl.items.map((item) => Object.keys(item))).toEqual(expected.items.map((item) => Object.keys(item)))
    expect(byCurl.total).toBe(expected.total)

    const asFunction = (code: string) => `(async () => { ${code}\nreturn answer })()`
    expect(await runInNewContext(asFunction(javascript), { fetch, token })).toEqual(byCurl)

    const [imports = '', ...lines] = sdk.split('\n')
    expect(imports).toBe("import { listOrganizations, Platform, staticToken } from '@platform/sdk'")
    // By a computed name: no code of a service may import the SDK.
    const names = (await import(new URL('../../../../../../packages/sdk/src/index.ts', import.meta.url).href)) as object
    expect(await runInNewContext(asFunction(lines.join('\n')), { ...names, token })).toEqual(byCurl)

    const refused = await platform.call(null, 'GET /organizations')
    expect([refused.status, refused.body]).toEqual([401, JSON.parse(error)])
  })

  test('the first page of the reference gets a token by commands that work, with a client for signing in and without', async () => {
    const { token, applicationId: APPLICATION } = await newOwner(withoutClient)
    const [commands = ''] = await codeBlocks(withoutClient)
    const exchangeStart = commands.indexOf('curl ')
    // The command line has tests of its own; here it prints the body that it would send.
    const printed = await runInShell(
      commands.slice(0, exchangeStart),
      { APPLICATION },
      'platform() { echo "${@: -1}"; }',
    )
    const body = JSON.parse(printed.slice(printed.indexOf('{'))) as Record<string, unknown>
    const { id, secret } = (await withoutClient.call(token, 'POST /api-keys', body)).body as Record<string, string>
    const env = { ID: id ?? '', SECRET: secret ?? '' }
    const exchanged = JSON.parse(await runInShell(commands.slice(exchangeStart), env)) as Record<string, unknown>
    expect(exchanged).toMatchObject({ access_token: expect.any(String) as string, expires_in: 300 })
    const listed = await withoutClient.call(exchanged['access_token'] as string, 'GET /organizations')
    expect([listed.status, listed.body]).toEqual([200, { items: [], total: 0 }])

    const [exchange = ''] = await codeBlocks(platform)
    expect(exchange.replaceAll(platform.apiUrl, withoutClient.apiUrl)).toBe(commands.slice(exchangeStart))
  })

  test('a file of another name, such as one of an older release, is missing', async () => {
    for (const name of ['scalar.js', 'scalar.0000000000000000.js', '..%2f..%2fpackage.json', '__proto__'])
      expect([name, (await platform.call(null, `GET /docs/assets/${name}`)).status]).toEqual([name, 404])
  })

  test('the script and the document are compressed as the client likes', async () => {
    const { text } = await platform.call(null, 'GET /docs')
    const script = /\/docs\/assets\/scalar\.[0-9a-f]{16}\.js/.exec(text)?.[0] ?? ''
    for (const path of [script, '/docs/json']) {
      const plain = await getBytes(path, 'identity')
      const brotli = await getBytes(path, 'gzip, br')
      const gzip = await getBytes(path, 'gzip;q=1, br;q=0')
      expect([plain, brotli, gzip].map(({ headers }) => [headers['content-encoding'], headers['vary']])).toEqual([
        [undefined, 'Origin, Accept-Encoding'],
        ['br', 'Origin, Accept-Encoding'],
        ['gzip', 'Origin, Accept-Encoding'],
      ])
      expect(brotliDecompressSync(brotli.bytes).equals(plain.bytes)).toBe(true)
      expect(gunzipSync(gzip.bytes).equals(plain.bytes)).toBe(true)
      expect(brotli.bytes.length).toBeLessThan(plain.bytes.length / 3)
      expect(brotli.headers['content-length']).toBe(String(brotli.bytes.length))
    }
  })
})

describeInChromium('the reference page', (open) => {
  /** Opens the page and waits until it shows the document. Records its requests and console messages. */
  async function openReference(options: Parameters<OpenPage>[0] = {}, { apiUrl } = platform) {
    const { context, page } = await open(options)
    const origins = new Set<string>()
    const complaints: string[] = []
    context.on('request', (request) => origins.add(new URL(request.url()).origin))
    context.on('console', (message) => {
      if (message.type() !== 'info') complaints.push(message.text())
    })
    context.on('weberror', (error) => complaints.push(error.error().message))
    await page.goto(`${apiUrl}/docs`)
    await page.getByRole('heading', { name: 'Platform API', level: 1 }).waitFor()
    await page.getByPlaceholder('Token').first().waitFor()
    return { context, page, origins, complaints }
  }

  /** What axe finds in what is ours, as rule and place: the rest is Scalar's. */
  async function flawsOf(page: Page): Promise<string[]> {
    await page.evaluate(axe.source)
    const { violations } = await page.evaluate<AxeResults>("axe.run(['.bar', '#first-page'])")
    return violations.flatMap(({ id, nodes }) => nodes.map(({ target }) => `${id}: ${target.join(' ')}`))
  }

  /** Sends the first operation, which lists the caller's organizations, and waits for the answer. */
  async function sendRequest(page: Page): Promise<{ status: number; total: number }> {
    await page.getByRole('link', { name: 'List organizations', exact: false }).first().click()
    await page
      .getByRole('button', { name: /Test Request/ })
      .first()
      .click()
    const [answer] = await Promise.all([
      page.waitForResponse((response) => response.url() === `${platform.apiUrl}/organizations`),
      page.getByRole('button', { name: /Send/ }).first().click(),
    ])
    await page.getByText(`${answer.status()} `).first().waitFor()
    return { status: answer.status(), total: ((await answer.json()) as { total: number }).total }
  }

  test.each([
    ['a desktop', 800, { viewport: { width: 1_280, height: 800 }, colorScheme: 'light' }],
    ['a desktop in the dark', 800, { viewport: { width: 1_280, height: 800 }, colorScheme: 'dark' }],
    ['a phone', 1_300, { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true, colorScheme: 'light' }],
  ] as const)(
    'fits %s, whose first page ends by %i px, asks this origin alone, and gives neither axe nor the console cause to complain',
    async (_, endMax, options) => {
      const { context, page, origins, complaints } = await openReference(options)
      const first = page.getByRole('main').getByRole('region', { name: 'Your first request' })
      const { y, height } = (await first.boundingBox()) ?? { y: 0, height: Infinity }
      expect(y + height).toBeLessThanOrEqual(endMax)
      const document = await page.getByRole('heading', { name: 'Platform API', level: 1 }).boundingBox()
      expect(document?.y).toBeGreaterThan(y + height)
      const schemes = '[getComputedStyle(document.documentElement).colorScheme, document.body.className]'
      expect(await page.evaluate(schemes)).toEqual([options.colorScheme, `${options.colorScheme}-mode`])
      expect(await page.evaluate<number>('document.documentElement.scrollWidth')).toBe(options.viewport.width)
      const fonts =
        'document.fonts.ready.then((fonts) => [...fonts].map(({ family, status }) => family + " " + status))'
      expect(await page.evaluate(fonts)).toContain('Inter loaded')
      expect(await flawsOf(page)).toEqual([])
      expect([...origins]).toEqual([platform.apiUrl])
      expect(complaints).toEqual([])
      await context.close()
    },
  )

  test('shows the first page without JavaScript, with its request in each language', async () => {
    const { context, page } = await open({ javaScriptEnabled: false })
    await page.goto(`${platform.apiUrl}/docs`)
    for (const [language, code] of [
      ['JavaScript', 'await fetch('],
      ['SDK', 'await listOrganizations('],
      ['curl', 'Bearer $TOKEN'],
    ] as const) {
      await page.locator('label').getByText(language, { exact: true }).click()
      expect(await page.locator('.samples pre:visible').allTextContents()).toEqual([expect.stringContaining(code)])
    }
    expect(await page.getByRole('button', { name: 'Sign in' }).count()).toBe(0)
    await context.close()
  })

  test('the style of the reference names no colour of its own: every one is a token of packages/look', async () => {
    const { context, page } = await open()
    const values = [...referenceStyle.matchAll(/: ([^;{}]+);/g)].map(([, value]) => value ?? '')
    const words = values.flatMap((value) => value.replaceAll(/var\([^)]*\)/g, '').match(/[#\w-]+(?:\([^)]*\))?/g) ?? [])
    const colours = await page.evaluate<string[]>(
      `${JSON.stringify(words)}.filter((word) => CSS.supports('color', word))`,
    )
    expect(colours.filter((word) => !['inherit', 'transparent'].includes(word))).toEqual([])
    await context.close()
  })

  test('finds an operation, and shows how to call it with curl, with fetch and with the SDK', async () => {
    const { context, page, complaints } = await openReference()
    await page
      .getByRole('button', { name: /Search/ })
      .first()
      .click()
    await page.getByRole('combobox').fill('restore object')
    await page
      .getByRole('option', { name: /Restore/ })
      .first()
      .click()
    await page.waitForURL(/restore/)
    const sample = page
      .locator('.scalar-card')
      .filter({ hasText: 'trash/{objectId}/restore' })
      .filter({ hasText: 'Test Request' })
    await sample.getByText('--request POST').waitFor()
    await sample.getByRole('button', { name: 'Shell Curl' }).click()
    await page.getByRole('option', { name: 'Fetch' }).click()
    await sample.getByText("method: 'POST'").waitFor()
    await sample.getByRole('button', { name: 'Fetch' }).click()
    await page.getByRole('option', { name: 'SDK' }).click()
    await sample.getByText('await restoreObject(platform').waitFor()
    expect(complaints).toEqual([])
    await context.close()
  })

  test('sends a request with a token that is pasted', async () => {
    const owner = await newOwner(platform)
    const { context, page, origins, complaints } = await openReference()
    await page.getByPlaceholder('Token').first().fill(owner.token)
    expect(await sendRequest(page)).toEqual({ status: 200, total: 1 })
    expect([...origins]).toEqual([platform.apiUrl])
    expect(complaints).toEqual([])
    await context.close()
  })

  test('offers no sign-in where the operator has given it no client', async () => {
    const { context, page, complaints } = await openReference({}, withoutClient)
    expect(await page.getByText('Authorize via oauth2').count()).toBe(0)
    expect(await page.getByRole('button', { name: 'Sign in' }).count()).toBe(0)
    expect(complaints).toEqual([])
    await context.close()
  })

  test('signs in at the identity provider, and sends a request as whoever signed in', async () => {
    const person = await platform.person()
    await newOwner(platform, person)
    const { context, page, origins, complaints } = await openReference()
    const [popup] = await Promise.all([
      page.waitForEvent('popup'),
      page.getByRole('button', { name: 'Sign in' }).click(),
    ])
    await popup.locator('[name=email]').fill(person.email)
    await popup.locator('[name=password]').fill(person.password)
    await Promise.all([
      page.waitForResponse((response) => response.url() === `${platform.idpUrl}/oauth2/token` && response.ok()),
      popup.locator('[name=password]').press('Enter'),
    ])
    await page.waitForFunction("document.querySelector('[placeholder=Token]')?.value")
    expect(await sendRequest(page)).toEqual({ status: 200, total: 1 })
    expect([...origins].toSorted()).toEqual([platform.apiUrl, platform.idpUrl].toSorted())
    expect(complaints).toEqual([])
    await context.close()
  })
})
