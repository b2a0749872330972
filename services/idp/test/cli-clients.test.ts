import { randomUUID } from 'node:crypto'
import { auditEvents } from '@platform/service/audit-table'
import { asc, eq } from 'drizzle-orm'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Operated, refused, startOperated } from './operator.ts'
import { REDIRECT_URI, type TestIdp } from './start.ts'

let operated: Operated
let idp: TestIdp
let run: Operated['run']
let runJson: Operated['runJson']
beforeAll(async () => {
  operated = await startOperated()
  ;({ idp, run, runJson } = operated)
})
afterAll(() => idp.close())

const changesOf = async (clientId: string): Promise<string[]> => {
  const events = await idp.deps.db
    .select({ actor: auditEvents.actor, action: auditEvents.action })
    .from(auditEvents)
    .where(eq(auditEvents.subject, `client:${clientId}`))
    .orderBy(asc(auditEvents.id))
  return events.map(({ actor, action }) => `${actor} ${action}`).slice(1)
}
const refresh = (clientId: string, token = '') =>
  idp.token({ grant_type: 'refresh_token', client_id: clientId, refresh_token: token })

test('client show tells what is registered, and of secrets only their age', async () => {
  const client = await idp.client({ kind: 'confidential', requester: 'ops' })
  await run(`client rotate-secret ${client.id}`)
  const shown = await runJson(`client show ${client.id.toUpperCase()}`)
  expect(shown).toMatchObject({ id: client.id, name: 'Test client', requester: 'ops', redirectUris: [REDIRECT_URI] })
  expect(shown.secrets).toEqual([
    { createdAt: expect.any(String), expiresAt: null },
    { createdAt: expect.any(String), expiresAt: expect.any(String) },
  ])
  expect(JSON.stringify(shown)).not.toMatch(/hash|idp_secret/i)
  const { stdout } = await run(`client show ${client.id}`)
  expect(stdout).toContain(`redirect URIs   ${REDIRECT_URI}\n`)
  expect(stdout).toContain('who             everyone\n')
  expect(await run(`client show ${randomUUID()}`)).toEqual(refused('Client not found'))
})

test('client update changes what is named and leaves the rest; authorize follows at once', async () => {
  const client = await idp.client({ requester: 'ops' })
  const redirect_uri = 'https://new.example.com/callback'
  const statusOf = async (uri: string) =>
    (await idp.send(`GET ${idp.authorizeUrl(client, { redirect_uri: uri }).slice(idp.url.length)}`)).status
  expect([await statusOf(REDIRECT_URI), await statusOf(redirect_uri)]).toEqual([302, 400])
  const before = await runJson(`client show ${client.id}`)
  await runJson([
    'client',
    'update',
    client.id,
    '--redirect-uri',
    redirect_uri,
    '--requester',
    '',
    '--scope',
    'openid',
    '--first-party',
    'false',
  ])
  const { updatedAt, ...after } = await runJson(`client show ${client.id}`)
  expect(after).toEqual({
    ...before,
    redirectUris: [redirect_uri],
    requester: null,
    scopes: ['openid'],
    isFirstParty: false,
    updatedAt: undefined,
  })
  expect(updatedAt).not.toBe(before.updatedAt)
  expect([await statusOf(REDIRECT_URI), await statusOf(redirect_uri)]).toEqual([400, 302])

  await runJson(
    `client update ${client.id} --all-scopes --name Renamed --post-logout-redirect-uri https://new.example.com/`,
  )
  await runJson(['client', 'update', client.id, '--post-logout-redirect-uri', ''])
  await runJson(`client update ${client.id} --name Renamed`)
  expect(await runJson(`client show ${client.id}`)).toMatchObject({
    name: 'Renamed',
    scopes: null,
    postLogoutRedirectUris: [],
  })
  expect(await changesOf(client.id)).toEqual(Array.from({ length: 3 }, () => 'operator client.changed'))
})

test('client update refuses what client create refuses, and changes nothing then', async () => {
  const client = await idp.client({ scopes: ['openid', 'offline_access'] })
  const before = await runJson(`client show ${client.id}`)
  for (const [words, sentence] of [
    ['--redirect-uri http://app.example.com/', 'The redirect URI "http://app.example.com/" '],
    ['--grant password', 'Unknown grant password; '],
    ['--grant authorization_code', 'offline_access is for clients with the grant refresh_token'],
    ['--scope nope', 'Unknown scope nope'],
  ] as const) {
    const answer = await run(`client update ${client.id} --name Changed ${words}`)
    expect([words, answer.code, answer.stderr.startsWith(sentence)]).toEqual([words, 1, true])
  }
  expect(await run(['client', 'update', client.id, '--name', ' '])).toEqual(refused('A client has a name'))
  expect(await run(`client update ${randomUUID()} --name Changed`)).toEqual(refused('Client not found'))
  expect(await runJson(`client show ${client.id}`)).toEqual(before)
})

test('client enable lets a disabled client in again, without what it was granted', async () => {
  const [client, ana] = [await idp.client(), await idp.person()]
  const { refresh_token } = await idp.tokens(client, ana)
  await run(`client disable ${client.id}`)
  expect((await refresh(client.id, refresh_token)).body).toMatchObject({ error: 'invalid_client' })
  for (let i = 0; i < 2; i++) await runJson(`client enable ${client.id}`)
  expect((await refresh(client.id, refresh_token)).body).toMatchObject({ error: 'invalid_grant' })
  expect((await refresh(client.id, (await idp.tokens(client, ana)).refresh_token)).status).toBe(200)
  expect(await changesOf(client.id)).toEqual(['operator client.disabled', 'operator client.enabled'])
})

test('client delete takes only a disabled client, with everything of it, and nothing of another', async () => {
  const [client, other] = [await idp.client({ isFirstParty: false }), await idp.client({ isFirstParty: false })]
  const ana = await idp.person()
  const { refresh_token } = await idp.tokens(client, ana)
  const kept = await idp.tokens(other, ana)
  expect(await run(`client delete ${client.id}`)).toEqual(
    refused('Only a disabled client can be deleted: `client disable` comes first'),
  )
  await run(`client disable ${client.id}`)
  await runJson(`client delete ${client.id}`)
  expect((await refresh(client.id, refresh_token)).body).toMatchObject({ error: 'invalid_client' })
  expect((await idp.send(`GET ${idp.authorizeUrl(client).slice(idp.url.length)}`)).status).toBe(400)
  const shown = await runJson(`user show ${ana.userId}`)
  expect(shown.clients).toMatchObject([{ clientId: other.id }])
  expect((await refresh(other.id, kept.refresh_token)).status).toBe(200)
  expect((await changesOf(client.id)).at(-1)).toBe('operator client.deleted')
  for (const verb of ['delete', 'enable', 'show'])
    expect(await run(`client ${verb} ${client.id}`)).toEqual(refused('Client not found'))
})

test('calling client show, update, enable and delete wrongly ends with exit code 2', async () => {
  const id = randomUUID()
  const wrong = [
    'client show',
    'client show x',
    'client update x --name New',
    `client update ${id}`,
    `client update ${id} --first-party perhaps`,
    `client update ${id} --all-scopes --scope openid`,
    'client enable',
    'client delete x',
  ]
  for (const words of wrong) expect([words, (await run(words)).code]).toEqual([words, 2])
})
