// engines: postgres
import { holding } from '@platform/testkit/holding'
import { rotationBoundaries } from '@platform/service/rotating-keys'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { raceFifty } from '../../../test/race-fifty.ts'
import { claimsOf, startTestIdp, type TestClient, type TestIdp, type TestPerson } from '../../../test/start.ts'
import { deleteUser } from '../access/delete-user.ts'
import { disableClient } from '../access/disable-client.ts'
import { restoreUser, suspendUser } from '../access/suspend-user.ts'
import { setProductAccess } from '../accounts/accounts.ts'
import { ensureClient, setClientPolicy } from '../clients/clients.ts'
import { refreshKeys } from '../refresh/table.ts'

let idp: TestIdp
let client: TestClient
let ana: TestPerson
beforeAll(async () => {
  idp = await startTestIdp()
  client = await idp.client()
  ana = await idp.person()
})
afterAll(() => idp.close())

const DAY = 86_400_000
const newToken = async (scope = 'openid email offline_access', by = client, person = ana) =>
  (await idp.tokens(by, person, scope)).refresh_token ?? ''
const refresh = (refresh_token: string, more: Record<string, string> = {}, by = client) =>
  idp.token({
    grant_type: 'refresh_token',
    client_id: by.id,
    ...(by.secret === undefined ? {} : { client_secret: by.secret }),
    refresh_token,
    ...more,
  })
const refused = { status: 400, body: { error: 'invalid_grant' } }

describe('rotation (B §2, §3)', () => {
  test('each use gives new tokens and retires the old refresh token; auth_time stays, the nonce goes', async () => {
    const first = await idp.tokens(client, ana, 'openid offline_access')
    idp.advance(3_000)
    const { status, headers, body } = await refresh(first.refresh_token ?? '')
    expect(status).toBe(200)
    expect(headers['cache-control']).toBe('no-store')
    expect(body).toMatchObject({ token_type: 'Bearer', expires_in: 300, scope: 'openid offline_access' })
    expect(body.refresh_token).not.toBe(first.refresh_token)
    const [before, after] = [claimsOf(first.id_token), claimsOf(body.id_token)]
    expect(after).toMatchObject({ sub: before.sub, auth_time: before.auth_time, sid: before.sid, aud: client.id })
    expect(after.iat).toBeGreaterThan(before.iat as number)
    expect(after).not.toHaveProperty('nonce')
    expect(await refresh(first.refresh_token ?? '')).toMatchObject(refused)
    expect((await refresh(body.refresh_token)).status).toBe(200)
  })

  test('it goes on for as long as it is used within 30 days (B §8)', async () => {
    let token = await newToken()
    for (let month = 0; month < 3; month++) {
      idp.advance(29 * DAY)
      token = (await refresh(token)).body.refresh_token
    }
    idp.advance(30 * DAY + 1_000)
    expect(await refresh(token)).toMatchObject(refused)
  })

  test('scope keeps the original, narrows on request, and never widens (D67)', async () => {
    const token = await newToken('openid email offline_access')
    const wider = await refresh(token, { scope: 'openid profile' })
    expect(wider).toMatchObject({ status: 400, body: { error: 'invalid_scope' } })
    expect(await refresh(token, { scope: ' ' })).toMatchObject({ status: 400, body: { error: 'invalid_scope' } })
    const narrow = await refresh(token, { scope: 'email' }) // the refusal consumed nothing
    expect(narrow).toMatchObject({ status: 200, body: { scope: 'email' } })
    expect(claimsOf(narrow.body.access_token).scope).toBe('email')
    expect(narrow.body).not.toHaveProperty('id_token')
    const whole = await refresh(narrow.body.refresh_token)
    expect(whole.body.scope).toBe('openid email offline_access')
    expect(whole.body.id_token).toBeDefined()
  })

  test('what the operator has taken from the client since is left out', async () => {
    const own = await idp.client()
    const token = await newToken('openid email offline_access', own)
    await ensureClient(idp.deps, {
      id: own.id,
      name: 'Narrower',
      kind: 'public',
      redirectUris: [],
      grants: ['refresh_token'],
      scopes: ['openid', 'offline_access'],
    })
    expect((await refresh(token, {}, own)).body.scope).toBe('openid offline_access')
  })
})

describe('replay (D61)', () => {
  test('a retired token within 10 s is a lost race: 400 and nothing else', async () => {
    const token = await newToken()
    const { body } = await refresh(token)
    idp.advance(9_000)
    expect(await refresh(token)).toMatchObject(refused)
    expect((await refresh(body.refresh_token)).status).toBe(200)
  })

  test('a retired token after 10 s ends the family', async () => {
    const token = await newToken()
    const { body } = await refresh(token)
    idp.advance(10_500)
    expect(await refresh(token)).toMatchObject(refused)
    expect(await refresh(body.refresh_token)).toMatchObject(refused)
  })

  test('an old generation ends the family although the last rotation was a moment ago', async () => {
    const first = await newToken()
    const second = (await refresh(first)).body.refresh_token as string
    idp.advance(60_000)
    const third = (await refresh(second)).body.refresh_token as string
    expect(await refresh(second)).toMatchObject(refused) // lost race
    const fourth = (await refresh(third)).body.refresh_token as string
    expect(await refresh(second)).toMatchObject(refused) // retired a moment ago as well
    expect((await refresh(fourth)).status).toBe(200)
    idp.advance(20_000)
    expect(await refresh(first)).toMatchObject(refused)
    expect(await refresh(fourth)).toMatchObject(refused)
  })

  test('a forged token ends nothing', async () => {
    const token = await newToken()
    const { body } = await refresh(token)
    idp.advance(60_000)
    const [v, key, family, generation, mac] = token.split('.')
    const forged = [
      `${v}.${key}.${family}.${Number(generation) + 1}.${mac}`,
      `${v}.${key}.${family}.${generation}.${'A'.repeat(43)}`,
      `${v}.xxxxxxxx.${family}.${generation}.${mac}`,
      `${v}.${key}.${family}.0${generation}.${mac}`,
      `${token}x`,
      `${token.slice(0, -1)}${token.endsWith('A') ? 'B' : 'A'}`,
      'nonsense',
      'v1....',
    ]
    for (const bad of forged) expect(await refresh(bad)).toMatchObject(refused)
    expect((await refresh(body.refresh_token)).status).toBe(200)
  })

  test('only one spelling of a token is the token', async () => {
    const token = await newToken()
    const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
    const last = alphabet.indexOf(token.at(-1) ?? '')
    const twin = token.slice(0, -1) + alphabet[last ^ 1]
    expect(await refresh(twin)).toMatchObject(refused)
    expect((await refresh(token)).status).toBe(200)
  })

  test('of two that have both read the family before either rotates it, one wins and nothing is revoked (D61)', async () => {
    const token = await newToken()
    const familyId = token.split('.')[2] ?? ''
    const [won, lost] = await holding(
      idp.databaseUrl,
      (held) => held`select from refresh_families where id = ${familyId} for update`,
      [() => refresh(token), () => refresh(token)],
    )
    expect(won.status).toBe(200)
    expect(lost).toMatchObject(refused)
    expect((await refresh(won.body.refresh_token)).status).toBe(200)
  })

  test('of fifty uses of a refresh token at once, one wins, and what it won is good', async () => {
    const token = await newToken()
    const familyId = token.split('.')[2] ?? ''
    const answers = await raceFifty(
      idp,
      (sql) => sql`select from refresh_families where id = ${familyId} for update`,
      () => refresh(token),
    )
    const won = answers.filter(({ status }) => status === 200)
    expect(won).toHaveLength(1)
    expect(new Set(answers.filter(({ status }) => status !== 200).map(({ body }) => body.error))).toEqual(
      new Set(['invalid_grant']),
    )
    expect((await refresh(won[0]?.body.refresh_token)).status).toBe(200)
  })

  test('fifty rotations leave one row', async () => {
    let token = await newToken()
    for (let i = 0; i < 50; i++) token = (await refresh(token)).body.refresh_token
    const familyId = token.split('.')[2] ?? ''
    const rows = await idp.deps.db.execute(`select generation from refresh_families where id = '${familyId}'`)
    expect([...rows]).toEqual([{ generation: 51 }])
  })
})

describe('whose token it is (B §3)', () => {
  test("another client's is refused and stays good", async () => {
    const other = await idp.client()
    const token = await newToken()
    const { body } = await refresh(token)
    idp.advance(60_000)
    expect(await refresh(token, {}, other)).toMatchObject(refused) // a replay, but not by its owner
    expect(await refresh(body.refresh_token, {}, other)).toMatchObject(refused)
    expect((await refresh(body.refresh_token)).status).toBe(200)
  })

  test('a confidential client shows its secret each time', async () => {
    const server = await idp.client({ kind: 'confidential' })
    const token = await newToken('openid offline_access', server)
    expect((await refresh(token, { client_secret: 'wrong' }, server)).status).toBe(401)
    expect((await refresh(token, {}, server)).status).toBe(200)
  })

  test('no refresh_token is invalid_request', async () => {
    expect(await idp.token({ grant_type: 'refresh_token', client_id: client.id })).toMatchObject({
      status: 400,
      body: { error: 'invalid_request' },
    })
  })

  test('access and ID tokens are no refresh tokens', async () => {
    const tokens = await idp.tokens(client, ana)
    for (const token of [tokens.access_token, tokens.id_token])
      expect(await refresh(token ?? '')).toMatchObject(refused)
  })
})

describe('who may not be redeemed for (D60)', () => {
  const denied = (reason: string) => ({
    status: 400,
    body: {
      error: 'invalid_request',
      error_description: expect.stringMatching(new RegExp(`^access_denied: .*${reason}`)),
    },
  })

  test('policy and product are asked each time, and refusing consumes nothing', async () => {
    const own = await idp.client({ requiredProduct: 'network' })
    const token = await newToken('openid offline_access', own)
    const product = (hasAccess: boolean) =>
      setProductAccess(idp.deps, { userId: ana.userId, product: 'network', hasAccess })
    await product(false)
    expect(await refresh(token, {}, own)).toMatchObject(denied('network'))
    await product(true)
    await setClientPolicy(idp.deps, { clientId: own.id, policy: { domains: ['other.example.com'] } })
    expect(await refresh(token, {}, own)).toMatchObject(denied('policy'))
    await setClientPolicy(idp.deps, { clientId: own.id, policy: { domains: [] } })
    expect((await refresh(token, {}, own)).status).toBe(200)
  })

  test('a suspended account is refused; restored, its grants have ended all the same', async () => {
    const bob = await idp.person()
    const token = await newToken('openid offline_access', client, bob)
    await suspendUser(idp.deps, bob.userId)
    expect(await refresh(token)).toMatchObject(denied('suspended'))
    await restoreUser(idp.deps, bob.userId)
    expect(await refresh(token)).toMatchObject(refused)
  })

  test('a deleted account', async () => {
    const bob = await idp.person()
    const token = await newToken('openid offline_access', client, bob)
    await deleteUser(idp.deps, bob.userId)
    expect(await refresh(token)).toMatchObject(refused)
  })

  test('disabling a client ends its grants', async () => {
    const own = await idp.client()
    const token = await newToken('openid offline_access', own)
    await disableClient(idp.deps, own.id)
    expect(await refresh(token, {}, own)).toMatchObject({ status: 401, body: { error: 'invalid_client' } })
  })
})

describe('the keys behind refresh tokens', () => {
  const keyOf = (text: string) => text.split('.')[1]

  test('they rotate on 1 January and 1 July with an overlap, so that no token fails', async () => {
    let token = await newToken()
    const first = keyOf(token)
    for (let week = 0; week < 30; week++) {
      idp.advance(7 * DAY)
      await idp.deps.refreshKeys.maintain()
      await idp.deps.keySet.maintain()
      const { status, body } = await refresh(token)
      expect(status).toBe(200)
      token = body.refresh_token
    }
    expect(keyOf(token)).not.toBe(first)
  })

  test('a next key that is retired before its day, as an earlier release left them, gives way to another', async () => {
    const { next } = rotationBoundaries(idp.now())
    idp.advance(next.getTime() - 20 * DAY - idp.now().getTime())
    await idp.deps.refreshKeys.maintain()
    const sealed = idp.deps.sealer.seal(Buffer.alloc(32), 'refresh-key:retired0')
    const retired = { id: 'retired0', ...sealed, activatesAt: next, retiresAt: idp.now() }
    await idp.deps.db.insert(refreshKeys).values(retired)
    const token = await newToken()
    idp.advance(10 * DAY)
    await idp.deps.refreshKeys.maintain()
    idp.advance(10 * DAY)
    await idp.deps.keySet.maintain()
    const { body } = await refresh(token)
    expect(keyOf(body.refresh_token)).not.toBe(keyOf(token))
    expect((await refresh(body.refresh_token)).status).toBe(200)
  })

  test('an emergency rotation while the next key waits for its day leaves no token without a key on that day', async () => {
    const maintain = async () => {
      await idp.deps.keySet.maintain()
      await idp.deps.refreshKeys.maintain()
    }
    const { next } = rotationBoundaries(idp.now())
    idp.advance(next.getTime() - 10 * DAY - idp.now().getTime())
    await maintain() // the next key is made 14 days ahead
    await idp.deps.refreshKeys.rotateNow(async () => {})
    const token = await newToken()
    await maintain()
    idp.advance(10 * DAY)
    const { status, body } = await refresh(token)
    expect(status).toBe(200)
    expect((await refresh(body.refresh_token)).status).toBe(200)
  })

  test('an emergency rotation ends every refresh token', async () => {
    const token = await newToken()
    await idp.deps.refreshKeys.rotateNow(async () => {})
    expect(await refresh(token)).toMatchObject(refused)
    expect((await refresh(await newToken())).status).toBe(200)
  })
})
