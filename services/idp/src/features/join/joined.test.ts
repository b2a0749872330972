import { randomUUID } from 'node:crypto'
import { sentStatements } from '@platform/testkit/sent-statements'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type InvitationIssuer, startInvitationIssuer } from '../../../test/invitation-issuer.ts'
import {
  claimsOf,
  DEVICE_GRANT,
  startTestIdp,
  type TestClient,
  type TestIdp,
  type TestPerson,
} from '../../../test/start.ts'

const DAY_MS = 86_400_000
const JSON_BODY = { 'content-type': 'application/json' }

let issuer: InvitationIssuer
let another: InvitationIssuer
let idp: TestIdp
let client: TestClient
beforeAll(async () => {
  issuer = await startInvitationIssuer()
  another = await startInvitationIssuer()
  idp = await startTestIdp({ INVITATION_ISSUERS: `${issuer.entry},${another.entry}` })
  // What tokens tell of ends when a test says so.
  idp.holdClock()
  client = await idp.client()
})
afterAll(async () => {
  await idp.close()
  await issuer.close()
  await another.close()
})

/** Takes an invitation in a browser of its own; returns what tokens tell of it. */
async function join(person: TestPerson, jti: string = randomUUID(), by = issuer): Promise<string> {
  const browser = await idp.signedIn(person)
  const page = await browser.visit(`${idp.url}/join?invitation=${await by.invite(idp, { email: person.email, jti })}`)
  const { status } = await browser.submit(page, {})
  if (status !== 200) throw new Error(`Joining answered ${status}`)
  return `${by.url}#${jti}`
}

async function startDevice(person: TestPerson): Promise<string> {
  const form = { client_id: client.id, scope: 'openid offline_access' }
  const { body } = await idp.send('POST /oauth2/device_authorization', form, JSON_BODY)
  const { device_code: code, verification_uri_complete: url } = body as Record<string, string>
  const browser = await idp.signedIn(person)
  await browser.submit(await browser.visit(url ?? ''), {}, { name: 'decision', value: 'approve' })
  return code ?? ''
}
const refresh = (token: string | undefined, by = client) =>
  idp.token({ grant_type: 'refresh_token', client_id: by.id, refresh_token: token ?? '' })
const joinedIn = (body: unknown): unknown => claimsOf((body as { access_token: string }).access_token)['joined']

test('access tokens of every grant and client tell of an invitation that was taken, for seven days (D112)', async () => {
  const person = await idp.person()
  // All granted before, and by clients that have nothing to do with the organization.
  const other = await idp.client({ isFirstParty: false })
  const tokens = [await idp.tokens(client, person), await idp.tokens(other, person)]
  const code = await idp.code(client, person)
  const device = await startDevice(person)
  for (const { access_token: token } of tokens) expect(claimsOf(token)).not.toHaveProperty('joined')

  const id = await join(person)
  const bodies = [
    (await idp.token(idp.codeForm(client, code))).body,
    (await idp.token({ grant_type: DEVICE_GRANT, client_id: client.id, device_code: device })).body,
  ] as Record<string, string>[]
  expect(bodies.map(joinedIn)).toEqual([[id], [id]])

  const told = async (ms: number) => {
    idp.advance(ms)
    const answers = [
      await refresh(tokens[0]?.refresh_token),
      await refresh(tokens[1]?.refresh_token, other),
      await refresh(bodies[1]?.refresh_token),
    ]
    const next = answers.map(({ body }) => (body as Record<string, string>).refresh_token ?? '')
    Object.assign(tokens[0]!, { refresh_token: next[0] })
    Object.assign(tokens[1]!, { refresh_token: next[1] })
    Object.assign(bodies[1]!, { refresh_token: next[2] })
    return answers.map(({ body }) => joinedIn(body))
  }
  expect(await told(0)).toEqual([[id], [id], [id]])
  expect(await told(7 * DAY_MS - 1)).toEqual([[id], [id], [id]])
  expect(await told(1)).toEqual([undefined, undefined, undefined])
})

test('the ID token and userinfo tell of no invitation', async () => {
  const person = await idp.person()
  await join(person)
  const tokens = await idp.tokens(client, person)
  expect(claimsOf(tokens.id_token)).not.toHaveProperty('joined')
  const authorization = `Bearer ${tokens.access_token}`
  expect((await idp.send('GET /oauth2/userinfo', undefined, { authorization })).body).not.toHaveProperty('joined')
})

test('several invitations are told of side by side, the same one once, and with its seven days anew', async () => {
  const person = await idp.person()
  const id = randomUUID()
  const [first, second] = [await join(person, id), await join(person)]
  const told = async () => joinedIn(await idp.tokens(client, person))
  expect(await told()).toEqual([first, second])
  idp.advance(4 * DAY_MS)
  await join(person, id)
  expect(await told()).toEqual([second, first])
  idp.advance(4 * DAY_MS)
  expect(await told()).toEqual([first])
})

test('invitation-of-another-issuer: an API that asserts the invitation of another one has its own name told, and replaces nothing', async () => {
  const person = await idp.person()
  const id = randomUUID()
  await join(person, id, another)
  const told = async () => joinedIn(await idp.tokens(client, person))
  expect(await told()).toEqual([`${another.url}#${id}`])
  await join(person, id)
  expect(await told()).toEqual([`${another.url}#${id}`, `${issuer.url}#${id}`])
})

test('of more than twenty invitations in a week the last twenty are told of, so that a token stays short', async () => {
  const person = await idp.person()
  const browser = await idp.signedIn(person)
  const ids = Array.from({ length: 22 }, () => randomUUID())
  for (const jti of ids) {
    const assertion = await issuer.invite(idp, { email: person.email, jti })
    await browser.submit(await browser.visit(`${idp.url}/join?invitation=${assertion}`), {})
  }
  expect(joinedIn(await idp.tokens(client, person))).toEqual(ids.slice(2).map((id) => `${issuer.url}#${id}`))
})

test('a refresh sends as many statements as it did before there were invitations, with one taken or not', async () => {
  const [with_, without] = [await idp.person(), await idp.person()]
  await join(with_)
  const statementsFor = async (person: TestPerson) => {
    const { refresh_token: token } = await idp.tokens(client, person)
    return sentStatements(async () => expect((await refresh(token)).status).toBe(200))
  }
  const statements = await statementsFor(without)
  // It reads the family along with its account, and rotates it.
  expect(statements).toHaveLength(2)
  expect(await statementsFor(with_)).toEqual(statements)
})
