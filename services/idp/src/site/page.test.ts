import { Browser } from '@platform/testkit/browser'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { startTestIdp, type TestIdp } from '../../test/start.ts'
import { page, textField } from './page.ts'

const path = '/example'
const form = z.object({ name: textField })
const show = () => new Response()
const submit = show

// The compiler checks these: an expected error that does not occur fails `npm run check`.
test('a form without a guard does not compile', () => {
  expect(page({ path, session: 'any', back: 'email', form, csrf: 'example', submit }).hasForm).toBe(true)
  expect(page({ path, session: 'none', show }).hasForm).toBe(false)

  // @ts-expect-error -- no csrf
  page({ path, session: 'any', back: 'email', form, submit })
  // @ts-expect-error -- no schema of the form
  page({ path, session: 'any', back: 'email', csrf: 'example', submit })
  // @ts-expect-error -- no session beside a form
  page({ path, form, csrf: 'example', submit })
  // @ts-expect-error -- no session
  page({ path, show })
  // @ts-expect-error -- a form that nothing is done with
  page({ path, session: 'none', show, form, csrf: 'example' })
  // @ts-expect-error -- nothing to show and nothing to submit
  page({ path, session: 'none' })
  // @ts-expect-error -- no way back from sign-in
  page({ path, session: 'any', show })
  // @ts-expect-error -- a page that sign-in does not lead back to
  page({ path, session: 'any', back: 'example', show })
  // @ts-expect-error -- an answer of its own, where a second factor may be missing
  page({ path, session: 'fresh', back: () => new Response(), show })
})

test('who is signed in is there for pages that need someone, and for no others', () => {
  page({ path, session: 'fresh', back: 'passkeys/add', show: ({ session }) => new Response(session.user.email) })
  // @ts-expect-error -- nobody need be signed in
  page({ path, session: 'none', show: ({ session }) => new Response(session.user.email) })
  const named = page({
    path,
    session: 'none',
    find: async ({ findSession }) => (await findSession())?.user.email.length ?? 0,
    form,
    csrf: ({ target }) => `example\n${target.toFixed()}`,
    submit: ({ target, form }) => new Response(form.name.repeat(target)),
  })
  expect(named.session).toBe('none')
})

describe('what every page sends and loads', () => {
  let idp: TestIdp
  let site: string
  beforeAll(async () => {
    idp = await startTestIdp({}, { accountPath: '/account' })
    site = `${idp.url}/account`
  })
  afterAll(() => idp.close())

  const visit = (path: string) => new Browser().visit(`${site}${path}`)
  const policyOf = ({ headers }: { headers: Headers }) => headers.get('content-security-policy')
  /** Absolute addresses of what a document names by a pattern. */
  const namedIn = (body: string, pattern: RegExp, base: string) =>
    [...body.matchAll(pattern)].map(([, href = '']) => new URL(href, base).href)

  test('an ordinary page loads its style, fonts and icon from this origin, and no script', async () => {
    const page = await visit('/sign-out')
    expect(page.status).toBe(200)
    expect(policyOf(page)).toBe(
      "default-src 'none'; style-src 'self'; font-src 'self'; img-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    )
    expect(page.body).not.toMatch(/<script|data-now/)
  })

  test('a page with the script permits that of this origin as well, and tells it the time of the server', async () => {
    onTestFinished(idp.holdClock())
    const page = await visit('/sign-in')
    expect(policyOf(page)).toBe(
      "default-src 'none'; style-src 'self'; font-src 'self'; img-src 'self'; script-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    )
    expect(page.body).toMatch(/<script type="module" src="\/account\/script\.[0-9a-f]{16}\.js"><\/script>/)
    expect(/<html[^>]* data-now="([^"]+)"/.exec(page.body)?.[1]).toBe(idp.now().toISOString())
  })

  test('a page has one style sheet and one icon, and a title that ends with the name of the platform, also where no page is', async () => {
    for (const [path, title] of [
      ['/sign-in', 'Sign in'],
      ['/missing', 'Problem: [^<]+'],
    ] as const) {
      const { body } = await visit(path)
      expect(body).toMatch(new RegExp(`<title>${title} &ndash; Platform</title>`))
      const links = [...body.matchAll(/<link rel="([^"]+)" href="([^"]+)"/g)].map(([, rel, href]) => [rel, href])
      expect(links).toEqual([
        ['icon', expect.stringMatching(/^\/account\/icon\.[0-9a-f]{16}\.svg$/)],
        ['stylesheet', expect.stringMatching(/^\/account\/style\.[0-9a-f]{16}\.css$/)],
      ])
    }
  })

  test('icon, style, fonts and script are files of this origin that may be kept for ever, and are not sent again by their ETag', async () => {
    const page = await visit('/sign-in')
    const named = namedIn(page.body, /<(?:link|script)\b[^>]* (?:href|src)="([^"]+)"/g, page.url)
    const style = named.find((href) => href.endsWith('.css')) ?? ''
    const fonts = namedIn(await (await fetch(style)).text(), /\burl\(([^)]+)\)/g, style)
    const files = [...named, ...fonts]
    const types: Record<string, string> = {
      svg: 'image/svg+xml',
      css: 'text/css; charset=utf-8',
      js: 'text/javascript; charset=utf-8',
      woff2: 'font/woff2',
    }
    const kinds = files.map((href) => href.slice(href.lastIndexOf('.') + 1))
    expect(kinds).toEqual(['svg', 'css', 'js', 'woff2', 'woff2'])
    for (const [i, href] of files.entries()) {
      expect(href).toMatch(new RegExp(`^${site}/[a-z-]+\\.[0-9a-f]{16}\\.`))
      const answer = await fetch(href)
      const bytes = Buffer.from(await answer.arrayBuffer())
      expect(answer.status).toBe(200)
      expect(answer.headers.get('content-type')).toBe(types[kinds[i] ?? ''])
      expect(answer.headers.get('x-content-type-options')).toBe('nosniff')
      expect(answer.headers.get('cache-control')).toBe('public, max-age=31536000, immutable')
      expect(answer.headers.get('content-length')).toBe(String(bytes.length))
      if (kinds[i] === 'woff2') expect(bytes.subarray(0, 4).toString()).toBe('wOF2')
      else
        expect(bytes.toString()).toContain({ svg: '<svg', css: '@font-face', js: 'addEventListener' }[kinds[i] ?? ''])
      const again = await fetch(href, { headers: { 'if-none-match': answer.headers.get('etag') ?? '' } })
      expect([again.status, await again.text()]).toEqual([304, ''])
      expect((await fetch(href, { headers: { 'if-none-match': '"another"' } })).status).toBe(200)
    }
  })
})
