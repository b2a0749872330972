import { Browser } from '@platform/testkit/browser'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startTestIdp, type TestIdp } from '../../test/start.ts'

/** What Chromium sends when somebody opens an address. */
const CHROMIUM = 'text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8'

describe.each([
  ['at the root', ''],
  ['below a path', '/account'],
])('a path that does not exist, on an account site %s', (_, accountPath) => {
  let idp: TestIdp
  beforeAll(async () => {
    idp = await startTestIdp({}, { accountPath })
  })
  afterAll(() => idp.close())

  const open = (path: string, accept = CHROMIUM) => new Browser({ accept }).visit(`${idp.url}${path}`)

  test('shows a browser a page that leads back', async () => {
    const page = await open(`${accountPath}/settings`)
    expect(page.status).toBe(404)
    expect(page.body).toContain('Page not found')
    expect(page.body).toContain(`href="${idp.url}${accountPath}/"`)
    expect(page.headers.get('content-security-policy')).toContain("default-src 'none'")
  })

  test('redirects a browser whose address has a slash too many, query and all', async () => {
    const { status, location } = await open(`${accountPath}/sign-in/?returnTo=%2Fpasskeys`)
    expect({ status, location }).toEqual({
      status: 302,
      location: `${idp.url}${accountPath}/sign-in?returnTo=%2Fpasskeys`,
    })
  })

  test('is JSON for programs, for forms, and for everybody where the protocol is', async () => {
    const path = `${accountPath}/settings`
    const answers = [
      await open(path, '*/*'),
      await open(path, 'application/json, text/html;q=0.9'),
      await open('/oauth2/register'),
      await open('/.well-known/nothing'),
      await new Browser({ accept: CHROMIUM }).visit(`${idp.url}${accountPath}/sign-in/`, { email: 'ana@example.com' }),
    ]
    for (const { status, headers, body } of answers) {
      expect(status).toBe(404)
      expect(headers.get('content-type')).toContain('application/json')
      expect(JSON.parse(body)).toEqual({ error: 'invalid_request', error_description: 'Page not found' })
    }
  })
})

test('an account site below a path is reached from the root and without the slash at its end, and leaves other paths alone', async () => {
  const idp = await startTestIdp({}, { accountPath: '/account' })
  try {
    const browser = new Browser({ accept: CHROMIUM })
    expect((await browser.visit(`${idp.url}/account`)).location).toBe(`${idp.url}/account/`)
    expect((await browser.visit(idp.url)).location).toBe(`${idp.url}/account/`)
    expect((await new Browser({ accept: '*/*' }).visit(idp.url)).status).toBe(404)
    expect((await browser.visit(`${idp.url}/accounts`)).headers.get('content-type')).toContain('application/json')
  } finally {
    await idp.close()
  }
})
