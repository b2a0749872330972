import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { describeInChromium, type OpenPage } from '@platform/testkit/chromium'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { newOwner } from '../../../test/scenario.ts'

let platform: TestPlatform
beforeAll(async () => {
  platform = await startPlatform()
})
afterAll(() => platform.close())

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
      `connect-src 'self' ${platform.apiUrl} ${platform.idpUrl}`,
      "base-uri 'none'",
      "form-action 'none'",
      "frame-ancestors 'none'",
    ])
    expect(page.text).toContain(`content="${nonce}"`)
    const again = await platform.call(null, 'GET /docs')
    expect(again.headers['content-security-policy']).not.toBe(policy)

    const references = [...page.text.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, url]) => url ?? '')
    const assets = references.filter((url) => url !== '/docs/json')
    expect(assets.map((url) => url.replace(/[0-9a-f]{16}/, 'HASH')).toSorted()).toEqual([
      '/docs/assets/icon.HASH.svg',
      '/docs/assets/scalar.HASH.js',
      '/docs/assets/start.HASH.js',
    ])
    for (const url of assets) {
      const { status, headers } = await platform.call(null, `GET ${url}`)
      expect([url, status, headers['cache-control']]).toEqual([url, 200, 'public, max-age=31536000, immutable'])
    }
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
    ['a desktop', { viewport: { width: 1_280, height: 900 }, colorScheme: 'light' }],
    ['a desktop in the dark', { viewport: { width: 1_280, height: 900 }, colorScheme: 'dark' }],
    ['a phone', { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true, colorScheme: 'light' }],
  ] as const)('fits %s, asks this origin alone, and prints no complaint', async (_, options) => {
    const { context, page, origins, complaints } = await openReference(options)
    const isDark = await page.evaluate<boolean>("document.body.classList.contains('dark-mode')")
    expect(isDark).toBe(options.colorScheme === 'dark')
    expect(await page.evaluate<number>('document.documentElement.scrollWidth')).toBe(options.viewport.width)
    expect([...origins]).toEqual([platform.apiUrl])
    expect(complaints).toEqual([])
    await context.close()
  })

  test('finds an operation, and shows how to call it with curl and with fetch', async () => {
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
    await expect.poll(() => page.url()).toContain('restore')
    const sample = page
      .locator('.scalar-card')
      .filter({ hasText: 'trash/{objectId}/restore' })
      .filter({ hasText: 'Test Request' })
    await sample.getByText('--request POST').waitFor()
    await sample.getByRole('button', { name: 'Shell Curl' }).click()
    await page.getByRole('option', { name: 'Fetch' }).click()
    await sample.getByText("method: 'POST'").waitFor()
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
    const other = await startPlatform({ env: { DOCS_CLIENT_ID: '' } })
    try {
      const { context, page, complaints } = await openReference({}, other)
      expect(await page.getByText('Authorize via oauth2').count()).toBe(0)
      expect(complaints).toEqual([])
      await context.close()
    } finally {
      await other.close()
    }
  })

  test('signs in at the identity provider, and sends a request as whoever signed in', async () => {
    const person = await platform.person()
    await newOwner(platform, person)
    const { context, page, origins, complaints } = await openReference()
    const [popup] = await Promise.all([page.waitForEvent('popup'), page.getByText('Authorize via oauth2').click()])
    await popup.locator('[name=email]').fill(person.email)
    await popup.locator('[name=password]').fill(person.password)
    await Promise.all([
      page.waitForResponse((response) => response.url() === `${platform.idpUrl}/oauth2/token` && response.ok()),
      popup.locator('[name=password]').press('Enter'),
    ])
    await expect.poll(() => page.getByPlaceholder('Token').first().inputValue()).not.toBe('')
    expect(await sendRequest(page)).toEqual({ status: 200, total: 1 })
    expect([...origins].toSorted()).toEqual([platform.apiUrl, platform.idpUrl].toSorted())
    expect(complaints).toEqual([])
    await context.close()
  })
})
