import { Browser, formsOn, type Visit } from '@platform/testkit/browser'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { listEndpoints, pages } from '../src/endpoints.ts'
import { formRecipes } from './form-recipes.ts'
import { type InvitationIssuer, startInvitationIssuer } from './invitation-issuer.ts'
import { readEverything } from './read-everything.ts'
import { startTestIdp, type TestIdp } from './start.ts'

let issuer: InvitationIssuer
let idp: TestIdp
beforeAll(async () => {
  issuer = await startInvitationIssuer()
  idp = await startTestIdp({ SIGN_UP: 'open', INVITATION_ISSUERS: issuer.entry })
})
afterAll(async () => {
  await idp.close()
  await issuer.close()
})

/** The page's form, open in a browser and filled in, as a request for the page's path. */
async function openForm(path: string) {
  const recipe = formRecipes[path]
  if (!recipe) throw new Error(`Say in test/form-recipes.ts how the form of ${path} is filled in rightly`)
  const { browser, shown, fields, ...more } = await recipe(idp, issuer)
  const action = `${idp.url}${path}`
  const form = formsOn(shown).find(
    (form) => form.action === action && Object.keys(fields).every((n) => form.names.has(n)),
  )
  if (!form) throw new Error(`${shown.url} (${shown.status}) shows no form for ${path}:\n${shown.body.slice(0, 2_000)}`)
  const { csrf, ...rest } = { ...form.filledIn, ...fields }
  if (csrf === undefined) throw new Error(`The form for ${path} on ${shown.url} has no CSRF token`)
  return { action, browser, rest, form: { ...rest, csrf }, ...more }
}

const QUARTER_MS = 15 * 60_000
const withForms = pages.filter(({ hasForm }) => hasForm)

describe.each(withForms)('the form of $path', ({ path, session }) => {
  test('is refused without its session, its token, and from another origin, which changes nothing; then it is taken', async () => {
    const { action, browser, form, rest, withoutSession = '/sign-in?returnTo=', unproven } = await openForm(path)
    // Somebody else, who may have the same page open.
    const other = session === 'none' ? new Browser() : await idp.signedIn(await idp.person())
    await other.visit(`${idp.url}/sign-in`)
    const before = await readEverything(idp)
    const expectRefused = async (why: string, status: number, posted: Promise<Visit>) => {
      const answer = await posted
      expect({ why, status: answer.status }).toEqual({ why, status })
      expect(await readEverything(idp), why).toEqual(before)
      return answer
    }

    const byNobody = new Browser().visit(action, form)
    if (session === 'none') await expectRefused('without the cookie that its token is bound to', 403, byNobody)
    else if (withoutSession === 'stays') await expectRefused('without a session', 200, byNobody)
    else {
      const { location } = await expectRefused('without a session', 303, byNobody)
      expect(location?.startsWith(`${idp.url}${withoutSession}`), location).toBe(true)
    }
    await expectRefused("in somebody else's browser", 403, other.visit(action, form))
    if (session === 'proven' || session === 'fresh') {
      if (!unproven) throw new Error(`Say in the recipe of ${path} in which browser the second factor was not shown`)
      const { location } = await expectRefused('without the second factor', 303, unproven.visit(action, form))
      expect(location?.startsWith(`${idp.url}/second-factor?returnTo=`), location).toBe(true)
    }
    await expectRefused('without its token', 403, browser.visit(action, rest))
    await expectRefused('with another token', 403, browser.visit(action, { ...rest, csrf: 'x'.repeat(43) }))
    for (const [name, value] of [
      ['origin', 'https://elsewhere.example'],
      ['origin', 'null'],
      ['sec-fetch-site', 'cross-site'],
      ['sec-fetch-site', 'same-site'],
    ] as const)
      await expectRefused(`${name}: ${value}`, 403, browser.visit(action, form, { [name]: value }))

    expect([200, 303]).toContain((await browser.visit(action, form)).status)
    expect(await readEverything(idp)).not.toEqual(before)
  })
})

describe.each(withForms.filter(({ session }) => session === 'fresh'))('the form of $path', ({ path }) => {
  test('is refused a quarter of an hour after its user signed in, which changes nothing', async () => {
    const { action, browser, form } = await openForm(path)
    const before = await readEverything(idp)
    idp.advance(QUARTER_MS)
    const { status, location } = await browser.visit(action, form)
    expect({ status, location }).toEqual({
      status: 303,
      location: expect.stringContaining(`${idp.url}/sign-in?returnTo=`) as string,
    })
    expect(await readEverything(idp)).toEqual(before)
  })
})

test.each(pages.filter(({ session }) => session !== 'none'))(
  '$path shows nothing without a session',
  async ({ path }) => {
    const { status, body } = await new Browser().visit(`${idp.url}${path}`)
    // 405: the form is shown by another page.
    const isAway = status === 302 || status === 405
    expect({ status, isAway: isAway || body.includes('You are signed out of this browser') }).toEqual({
      status,
      isAway: true,
    })
  },
)

test('nothing else takes a form of a browser, and no recipe is of a page that is gone', () => {
  const guarded = new Set<string>(pages.map(({ path }) => path))
  const others = listEndpoints(idp.deps).filter(({ path, POST }) => POST && !guarded.has(path))
  // Clients ask the first four with credentials of their own; the last two answer with the same request as a GET.
  expect(others.map(({ path }) => path).toSorted()).toEqual(
    [
      '/oauth2/token',
      '/oauth2/userinfo',
      '/oauth2/revoke',
      '/oauth2/device_authorization',
      '/oauth2/authorize',
      '/oauth2/logout',
    ].toSorted(),
  )
  expect(Object.keys(formRecipes).toSorted()).toEqual(withForms.map(({ path }) => path).toSorted())
})
