import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { decisionsOf, termsOf } from '../../../test/page-words.ts'
import { REDIRECT_URI, startTestIdp, type TestIdp } from '../../../test/start.ts'

let idp: TestIdp
beforeAll(async () => {
  idp = await startTestIdp()
})
afterAll(() => idp.close())

async function consentPage(description: Parameters<TestIdp['client']>[0], parameters: Record<string, string>) {
  const client = await idp.client({ isFirstParty: false, ...description })
  const person = await idp.person()
  const browser = await idp.signedIn(person)
  const page = await browser.follow(await browser.visit(idp.authorizeUrl(client, parameters)), idp.url)
  expect(page.url).toContain('/consent?')
  return { client, person, browser, page }
}

describe('who asks, and where it leads', () => {
  test('the page names the client, whom it was made for, the host of its redirect URI and the account, as text', async () => {
    const { page, person } = await consentPage({ name: '<b>Notes</b>', requester: 'Smith & Sons' }, {})
    expect(termsOf(page.body)).toEqual({
      Application: '&lt;b&gt;Notes&lt;/b&gt;',
      'Made for': 'Smith &amp; Sons',
      'Leads to': new URL(REDIRECT_URI).host,
      'Your account': `${person.email} Use another account`,
    })
  })

  test.each(['http://127.0.0.1:4123/callback', 'com.example.notes:/callback'])(
    'for %s it is a program on this machine; without a requester nothing is said of one',
    async (redirectUri) => {
      const { page, person } = await consentPage({ redirectUris: [redirectUri] }, { redirect_uri: redirectUri })
      expect(termsOf(page.body)).toEqual({
        Application: 'Test client',
        'Leads to': 'A program on this machine',
        'Your account': `${person.email} Use another account`,
      })
    },
  )

  test('another account can be used: signing in as somebody else leads back, and it is they who are asked', async () => {
    const { client, browser, page } = await consentPage({}, { scope: 'openid email' })
    const bob = await idp.person()
    const link = /href="([^"]+)">Use another account/.exec(page.body)?.[1]?.replaceAll('&amp;', '&') ?? ''
    const signIn = await browser.visit(link)
    expect(signIn.body).toContain('to continue to <strong>Test client</strong>')
    const again = await browser.follow(await idp.signIn(browser, signIn, bob), idp.url)
    expect(again.url).toContain('/consent?')
    expect(again.body).toContain(bob.email)
    const done = await browser.follow(await browser.submit(again, {}, { name: 'decision', value: 'approve' }), idp.url)
    const code = new URL(done.location ?? '').searchParams.get('code') ?? ''
    const { body } = await idp.token(idp.codeForm(client, code))
    const userinfo = { authorization: `Bearer ${body.access_token as string}` }
    expect((await idp.send('GET /oauth2/userinfo', undefined, userinfo)).body).toMatchObject({ email: bob.email })
  })
})

test('Allow comes before Deny and is filled, Deny is quiet; nothing on the page has the focus or is chosen beforehand', async () => {
  const { page } = await consentPage({}, { scope: 'openid email' })
  expect(decisionsOf(page.body)).toEqual([
    { text: 'Allow', decision: 'approve', isQuiet: false },
    { text: 'Deny', decision: 'deny', isQuiet: true },
  ])
  expect(page.body).not.toMatch(/<[^>]*\s(?:autofocus|checked|selected)\b/)
  // Enter in a field would press the first button.
  expect(page.body).not.toMatch(/<(?:select|textarea|input(?! type="hidden"))\b/)
})
