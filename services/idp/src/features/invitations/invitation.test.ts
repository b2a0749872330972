import { generateKeyPairSync, type KeyObject, randomUUID } from 'node:crypto'
import type { Browser, Visit } from '@platform/testkit/browser'
import { type CryptoKey, exportSPKI, generateKeyPair } from 'jose'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { newAddress, signUpUrl, stranger } from '../../../test/come-in.ts'
import { type InvitationIssuer, startInvitationIssuer } from '../../../test/invitation-issuer.ts'
import { startTestIdp, type TestIdp, type TestPerson } from '../../../test/start.ts'

const HOUR_MS = 3_600_000
const NOBODY = 'http://127.0.0.1:1'
const SECRET = new TextEncoder().encode('a secret of at least thirty-two bytes')

let issuer: InvitationIssuer
let another: InvitationIssuer
let behind: InvitationIssuer
let untrusted: InvitationIssuer
let idp: TestIdp
let ana: TestPerson
let browser: Browser
let strangersKey: CryptoKey
beforeAll(async () => {
  issuer = await startInvitationIssuer()
  another = await startInvitationIssuer()
  behind = await startInvitationIssuer('https://api.example.com')
  untrusted = await startInvitationIssuer()
  const trusted = [issuer.entry, another.entry, behind.entry, NOBODY].join(', ')
  idp = await startTestIdp({ SIGN_UP: 'open', INVITATION_ISSUERS: trusted })
  // Assertions end when a test says so.
  idp.holdClock()
  ana = await idp.person()
  browser = await idp.signedIn(ana)
  strangersKey = (await generateKeyPair('ES256')).privateKey
})
afterAll(async () => {
  await idp.close()
  for (const each of [issuer, another, behind, untrusted]) await each.close()
})

const joinUrl = (assertion: string): string => `${idp.url}/join?invitation=${encodeURIComponent(assertion)}`
const inSeconds = (seconds: number): number => Math.floor(idp.now().getTime() / 1_000) + seconds
const encode = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url')
const titleOf = ({ body }: Visit): string => /<h1>(.*?)<\/h1>/.exec(body)?.[1]?.replaceAll(/<\/?bdi>/g, '') ?? ''

/** What comes of an assertion for somebody who is signed in: by looking, by a form that is sent anyway, and by creating an account. */
async function fateOf(assertion: string): Promise<string[]> {
  const looked = await browser.visit(joinUrl(assertion))
  const sent = await browser.visit(`${idp.url}/join/confirm`, { invitation: assertion, csrf: 'x'.repeat(43) })
  const signUp = await stranger().visit(signUpUrl(idp, joinUrl(assertion)))
  return [
    `${looked.status} ${titleOf(looked)}`,
    `${sent.status} ${titleOf(sent)}`,
    signUp.body.includes('The invitation is for this address') ? 'admits' : 'admits nobody',
  ]
}
const gone = ['400 This invitation no longer works', '400 This invitation no longer works', 'admits nobody']
const taken = ['200 Join Analytical Engines', '403 That did not work', 'admits']

describe('an assertion of an API that the operator trusts (D112)', () => {
  test('says who invites whom to what, as what and where', async () => {
    const assertion = await issuer.invite(idp, { email: ana.email, role: 'ADMIN' })
    expect(await fateOf(assertion)).toEqual(taken)
    const { body } = await stranger().visit(joinUrl(assertion))
    for (const words of ['Charles Babbage', 'Analytical Engines', 'Admin', ana.email, new URL(issuer.url).host])
      expect(body).toContain(words)
  })

  test('may come from an API whose keys are fetched from another origin than its name', async () => {
    const assertion = await behind.invite(idp, { email: ana.email })
    expect(await fateOf(assertion)).toEqual(taken)
    expect((await browser.visit(joinUrl(assertion))).body).toContain('api.example.com')
  })

  test('is verified by keys that are read once', async () => {
    await browser.visit(joinUrl(await issuer.invite(idp)))
    const before = issuer.reads.length
    for (let i = 0; i < 3; i++) await browser.visit(joinUrl(await issuer.invite(idp)))
    expect(issuer.reads.slice(before)).toEqual([])
  })

  test('works for an hour and not longer', async () => {
    const assertion = await issuer.invite(idp, { email: ana.email })
    idp.advance(HOUR_MS - 1_000)
    expect(await fateOf(assertion)).toEqual(taken)
    idp.advance(1_000)
    expect(await fateOf(assertion)).toEqual(gone)
  })

  test('given twice in one address is refused by name (D116)', async () => {
    const assertion = await issuer.invite(idp, { email: ana.email })
    const { status, body } = await browser.visit(`${joinUrl(assertion)}&invitation=${assertion}`)
    expect(status).toBe(400)
    expect(body).toContain('The parameter invitation is sent more than once.')
  })

  test('of an API whose keys cannot be read now is answered with a page of status 503 that leads back, and not refused for good', async () => {
    const url = joinUrl(await issuer.invite(idp, { iss: NOBODY, email: ana.email }))
    const form = { invitation: new URL(url).searchParams.get('invitation') ?? '', csrf: '' }
    for (const page of [
      await browser.visit(url),
      await stranger().visit(url),
      await browser.visit(`${idp.url}/join/confirm`, form),
    ]) {
      expect(`${page.status} ${titleOf(page)}`).toBe('503 This invitation cannot be checked right now')
      expect(page.headers.get('retry-after')).toBe('10')
      expect(page.body).toContain(`href="${url}"`)
    }
  })

  test('of an API whose keys cannot be read now lets people create an account where anybody may, as without an invitation', async () => {
    const [email, visitor] = [newAddress(), stranger()]
    const page = await visitor.visit(signUpUrl(idp, joinUrl(await issuer.invite(idp, { iss: NOBODY, email }))))
    expect(page.status).toBe(200)
    expect(page.body).not.toContain('readonly')
    expect((await visitor.submit(page, { email })).status).toBe(303)
    expect(await idp.letters({ email })).toHaveLength(1)
  })
})

describe('anything else leads to the page that says that the invitation no longer works', () => {
  test.each<[string, Record<string, unknown>]>([
    ['without a type', { typ: undefined }],
    ['with the type of access tokens', { typ: 'at+jwt' }],
    ['with the type of ID tokens', { typ: 'JWT' }],
    ['with a key that is not published', { kid: 'unknown' }],
  ])('an assertion %s joins nobody', async (_, header) => {
    expect(await fateOf(await issuer.invite(idp, { email: ana.email }, { header }))).toEqual(gone)
  })

  test.each<[string, () => Record<string, unknown>]>([
    ['without an issuer', () => ({ iss: undefined })],
    ['with a number for an issuer', () => ({ iss: 1 })],
    ['without an audience', () => ({ aud: undefined })],
    ['without an end', () => ({ exp: undefined })],
    ['with words for an end', () => ({ exp: 'tomorrow' })],
    ['without a time of issue', () => ({ iat: undefined })],
    ['that ended a second ago', () => ({ exp: inSeconds(-1) })],
    ['that is not yet good', () => ({ nbf: inSeconds(60) })],
    ['without an id', () => ({ jti: undefined })],
    ['with an id that is none', () => ({ jti: 'x' })],
    ['without an address', () => ({ email: undefined })],
    ['with two addresses', () => ({ email: [ana.email] })],
    ['with an address in another spelling', () => ({ email: ana.email.toUpperCase() })],
    ['with an unknown role', () => ({ role: 'BILLING' })],
    ['without an organization', () => ({ organization: undefined })],
    ['with an organization of no name', () => ({ organization: '' })],
    ['with an organization of 256 characters', () => ({ organization: 'x'.repeat(256) })],
    ['without an inviter', () => ({ inviter: undefined })],
    ['with a console that is a script', () => ({ console: 'javascript:alert(1)' })],
  ])('an assertion %s joins nobody', async (_, claimsOf) => {
    expect(await fateOf(await issuer.invite(idp, { email: ana.email, ...claimsOf() }))).toEqual(gone)
  })

  test.each([
    ['nothing', ''],
    ['a word', 'x'],
    ['dots', '..'],
    ['three words', 'a.b.c'],
    ['headers that are no object', `${encode('x')}.${encode({ iss: 'x' })}.x`],
    ['claims that are no object', `${encode({ alg: 'ES256' })}.${encode(null)}.x`],
    ['five parts, as of an encrypted token', 'a.b.c.d.e'],
    ['bytes that are no text', '\u0001\u001f\ufffd'],
    ['an emoji', '🦆.🦆.🦆'],
    ['markup', '"><script>alert(1)</script>'],
    ['5,000 characters', `${'a'.repeat(2_000)}.${'b'.repeat(2_999)}.c`],
  ])('%s for an assertion joins nobody', async (_, assertion) => {
    expect(await fateOf(assertion)).toEqual(gone)
  })

  test('a signature that was changed, cut or is empty joins nobody', async () => {
    const [header, payload, signature = ''] = (await issuer.invite(idp, { email: ana.email })).split('.')
    const other = `${signature.startsWith('A') ? 'B' : 'A'}${signature.slice(1)}`
    for (const wrong of [other, signature.slice(0, -4), ''])
      expect(await fateOf(`${header}.${payload}.${wrong}`)).toEqual(gone)
    const elsewhere = encode(issuer.claims(idp, { email: newAddress() }))
    expect(await fateOf(`${header}.${elsewhere}.${signature}`)).toEqual(gone)
  })

  test('a link without its assertion leads to the same page', async () => {
    const page = await stranger().visit(`${idp.url}/join`)
    expect(`${page.status} ${titleOf(page)}`).toBe('400 This invitation no longer works')
  })
})

describe('attacks on assertions', () => {
  test('alg-none-and-hs256: an assertion without a signature, or with a MAC, is none, whatever key the MAC is made with', async () => {
    const claims = issuer.claims(idp, { email: ana.email })
    for (const alg of ['none', 'None', 'NONE', ''])
      expect(await fateOf(`${encode({ alg, typ: 'invitation+jwt', kid: 'of-the-test' })}.${encode(claims)}.`)).toEqual(
        gone,
      )
    const published = new TextEncoder().encode(await exportSPKI(issuer.publicKey))
    for (const key of [SECRET, published])
      expect(await fateOf(await issuer.invite(idp, claims, { header: { alg: 'HS256' }, key }))).toEqual(gone)
    const rsa: KeyObject = generateKeyPairSync('rsa', { modulusLength: 2_048 }).privateKey
    expect(await fateOf(await issuer.invite(idp, claims, { header: { alg: 'RS256' }, key: rsa }))).toEqual(gone)
    // Nor does another algorithm do, even with a key that the API publishes.
    const { kid, key } = issuer.edwards
    expect(await fateOf(await issuer.invite(idp, claims, { header: { alg: 'EdDSA', kid }, key }))).toEqual(gone)
  })

  test('invitation-of-another-issuer: an API speaks for itself, and an API that is not on the list is not even asked', async () => {
    const claims = { email: ana.email }
    expect(await fateOf(await untrusted.invite(idp, claims))).toEqual(gone)
    expect(untrusted.reads).toEqual([])
    // Each with the key of another one: a stranger's, and that of an API which is trusted as well.
    expect(await fateOf(await issuer.invite(idp, claims, { key: strangersKey }))).toEqual(gone)
    expect(await fateOf(await another.invite(idp, { ...claims, iss: issuer.url }))).toEqual(gone)
    expect(await fateOf(await issuer.invite(idp, { ...claims, iss: behind.url }))).toEqual(gone)
    for (const iss of [`${issuer.url}/`, issuer.url.toUpperCase(), '__proto__', idp.url])
      expect(await fateOf(await issuer.invite(idp, { ...claims, iss }))).toEqual(gone)
  })

  test('invitation-of-another-issuer: a key in the header, or the address of one, is not looked at', async () => {
    const jwk = { kty: 'EC', crv: 'P-256', x: 'x', y: 'y' }
    const jku = `${untrusted.url}/.well-known/jwks.json`
    for (const header of [{ jku }, { jwk, kid: undefined }, { x5u: jku }])
      expect(await fateOf(await issuer.invite(idp, { email: ana.email }, { header, key: strangersKey }))).toEqual(gone)
    expect(untrusted.reads).toEqual([])
  })

  test('assertion-for-another-audience: an invitation that an API made for another provider is worth nothing here', async () => {
    for (const aud of ['https://id.example.com', `${idp.url}/`, `${idp.url}.evil.example`, issuer.url])
      expect(await fateOf(await issuer.invite(idp, { email: ana.email, aud }))).toEqual(gone)
  })

  test('access-token-as-assertion: tokens of the provider and those of an API are no invitation', async () => {
    const tokens = await idp.tokens(await idp.client(), ana)
    for (const name of ['access_token', 'id_token', 'refresh_token'])
      expect(await fateOf(tokens[name] ?? 'none')).toEqual(gone)
    // What an API may sign for somebody else, by the same key.
    const claims = { email: ana.email, sub: ana.userId, scope: 'openid' }
    expect(await fateOf(await issuer.invite(idp, claims, { header: { typ: 'at+jwt' } }))).toEqual(gone)
  })

  test('assertion-as-access-token: an invitation opens nothing at the provider, even if it is shaped like a token', async () => {
    const now = inSeconds(0)
    const shaped = {
      iss: idp.url,
      sub: ana.userId,
      client_id: randomUUID(),
      scope: 'openid email',
      auth_time: now,
      sid: randomUUID(),
    }
    const assertions = [
      await issuer.invite(idp, { email: ana.email }),
      await issuer.invite(idp, shaped),
      await issuer.invite(idp, shaped, { header: { typ: 'at+jwt' } }),
    ]
    for (const assertion of assertions) {
      const authorization = `Bearer ${assertion}`
      const { status, body } = await idp.send('GET /oauth2/userinfo', undefined, { authorization })
      expect({ status, body }).toMatchObject({ status: 401, body: { error: 'invalid_token' } })
      const refresh = await idp.token({
        grant_type: 'refresh_token',
        client_id: (await idp.client()).id,
        refresh_token: assertion,
      })
      expect(refresh).toMatchObject({ status: 400, body: { error: 'invalid_grant' } })
    }
  })
})
