import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inspect } from 'node:util'
import { everyScope, type Person, startPlatform, type TestPlatform } from '@platform/testing/platform'
import { approveDevice, refuseDevice } from '@platform/testkit/approve-device'
import { Browser } from '@platform/testkit/browser'
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import { listOrganizations, memoryStore, needsSignIn, Platform, type TokenStore, userToken } from '../src/index.ts'
import { tokenFile } from '../src/node/index.ts'
import type { Fetch } from '../src/sender.ts'
import {
  beginCodeSignIn,
  beginDeviceSignIn,
  type CodeSignIn,
  type DeviceSignIn,
  finishCodeSignIn,
  finishDeviceSignIn,
  prepareLeaving,
  signInByDevice,
  signOut,
  signOutUrl,
  userInfo,
} from '../src/sign-in/index.ts'
import { createClient } from '../../../services/idp/src/features/clients/clients.ts'
import { startHostileServer } from './hostile-server.ts'
import { startSignInProcess } from './sign-in-program.ts'

const LIFE_MS = 301_000
const redirectUri = 'http://localhost:3000/callback'

let server: TestPlatform
let person: Person
let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sign-in-'))
  server = await startPlatform()
  person = await server.person()
})
afterAll(async () => {
  await server.close()
  await rm(folder, { recursive: true })
})

const byDevice = (store: TokenStore, more: Partial<Parameters<typeof signInByDevice>[0]> = {}) =>
  signInByDevice({
    baseUrl: server.apiUrl,
    clientId: server.publicClientId,
    scopes: everyScope,
    store,
    onCode: (code) => approveDevice(code, person),
    ...more,
  })

/** A store in which the person is signed in. */
async function newSignIn(): Promise<TokenStore> {
  const store = memoryStore()
  await byDevice(store)
  return store
}

const platformOf = (store: TokenStore, fetch?: Fetch) =>
  new Platform({ baseUrl: server.apiUrl, credential: userToken({ store }), fetch })

/** The stored sign-in. */
async function readStored(store: TokenStore) {
  const stored = await store.read()
  if (!stored) throw new Error('Nobody is signed in')
  return stored
}

/** How often the sign-in has been renewed: a refresh token names its generation. */
const generationOf = async (store: TokenStore): Promise<number> =>
  Number((await readStored(store)).refreshToken?.split('.')[3])

/** Ends the stored access token, here and for the platform. */
async function endToken(store: TokenStore): Promise<void> {
  server.clock.advance(LIFE_MS)
  await store.write({ ...(await readStored(store)), expiresAt: Date.now() - 1 })
}

/** The global fetch, with a way to step in at the token endpoint. */
const atTokenEndpoint =
  (stepIn: (send: () => Promise<Response>) => Promise<Response>): Fetch =>
  (url, init) =>
    url === `${server.idpUrl}/oauth2/token` ? stepIn(() => fetch(url, init)) : fetch(url, init)

const noAnswer = () => Promise.reject(new TypeError('fetch failed'))

/** Counts the requests to the token endpoint. */
function counting() {
  const counted = { tokenRequests: 0 }
  const send = atTokenEndpoint((pass) => {
    counted.tokenRequests++
    return pass()
  })
  return Object.assign(counted, { fetch: send })
}

/** The wait between two polls passes as soon as `meanwhile` has. Returns the waits, in ms. */
function withoutWaiting(meanwhile: (ms: number) => void | Promise<void>): number[] {
  const waits: number[] = []
  const setTimer = globalThis.setTimeout
  const spy = vi.spyOn(globalThis, 'setTimeout').mockImplementation(((work: () => void, ms = 0, ...rest: never[]) => {
    if (!new Error().stack?.includes('/src/pause.ts')) return setTimer(work, ms, ...rest)
    waits.push(ms)
    void Promise.resolve(meanwhile(ms)).then(work)
    return undefined
  }) as never)
  onTestFinished(() => spy.mockRestore())
  return waits
}

test('a person approves a device in a browser, and its calls are theirs', async () => {
  const store = memoryStore()
  const codes: DeviceSignIn[] = []
  const LIFE_OF_CODE_MS = 600_000
  const earliest = Date.now() + LIFE_OF_CODE_MS
  await byDevice(store, {
    onCode: (code) => {
      codes.push(code)
      return approveDevice(code, person)
    },
  })
  expect(codes).toEqual([
    {
      userCode: expect.stringMatching(/^\w{4}-\w{4}$/) as string,
      url: `${server.idpUrl}/device`,
      completeUrl: expect.stringContaining('/device?user_code=') as string,
      endsAt: expect.any(Number) as number,
      baseUrl: server.apiUrl,
      issuer: server.idpUrl,
      clientId: server.publicClientId,
      deviceCode: expect.stringMatching(/^[\w-]{43}$/) as string,
      intervalMs: 5_000,
    },
  ])
  const latest = Date.now() + LIFE_OF_CODE_MS
  const isInTime = codes.every(({ endsAt }) => earliest <= endsAt && endsAt <= latest)
  expect(isInTime).toBe(true)
  expect(await listOrganizations(platformOf(store))).toMatchObject({ items: [] })
  expect(await store.read()).toMatchObject({
    baseUrl: server.apiUrl,
    issuer: server.idpUrl,
    clientId: server.publicClientId,
    scope: everyScope.join(' '),
  })
})

test('a sign-in that was begun on a device is finished by who has its JSON, and asked about once at a time until then', async () => {
  const { apiUrl: baseUrl, publicClientId: clientId } = server
  const json = JSON.stringify(await beginDeviceSignIn({ baseUrl, clientId, scopes: ['openid'] }))
  const store = memoryStore()
  const finish = () => finishDeviceSignIn(JSON.parse(json) as DeviceSignIn, { store, wait: false })
  const waits = withoutWaiting(() => {})
  // The platform tells the second and third to slow down.
  for (let n = 0; n < 3; n++)
    await expect(finish()).rejects.toMatchObject({ status: 400, code: 'authorization_pending', retryable: false })
  expect(await store.read()).toBeUndefined()
  await approveDevice(JSON.parse(json) as DeviceSignIn, person)
  await finish()
  expect(await store.read()).toMatchObject({ baseUrl, issuer: server.idpUrl, clientId, scope: 'openid' })
  await expect(finish()).rejects.toMatchObject({ status: 400, code: 'invalid_grant' })
  expect(waits).toEqual([])
  await expect(finishDeviceSignIn(JSON.parse(json) as DeviceSignIn, { scopes: [] } as never)).rejects.toThrow(
    'takes no "scopes"',
  )
})

test('who asks once about a sign-in whose code ends in a moment is told what the platform says', async () => {
  const { apiUrl: baseUrl, publicClientId: clientId } = server
  const begun = await beginDeviceSignIn({ baseUrl, clientId, scopes: ['openid'] })
  const finishing = (more: object) =>
    finishDeviceSignIn({ ...begun, endsAt: Date.now() + 1_000 }, { store: memoryStore(), ...more })
  await expect(finishing({ wait: false })).rejects.toMatchObject({ code: 'authorization_pending' })
  await expect(finishing({})).rejects.toMatchObject({ code: 'expired_token' })
})

test('who signed in is told as far as the scopes allow it', async () => {
  const store = memoryStore()
  await byDevice(store, { scopes: ['openid', 'email', 'profile'] })
  expect(await userInfo({ store })).toMatchObject({ sub: person.userId, email: person.email, name: 'Ana Test' })
  await byDevice(store, { scopes: ['openid'] })
  expect(await userInfo({ store })).toEqual({ sub: person.userId })
  await byDevice(store, { scopes: ['platform:organizations:read'] })
  await expect(userInfo({ store })).rejects.toMatchObject({
    status: 403,
    code: 'insufficient_scope',
    message: 'The token lacks the scope openid',
  })
  await expect(userInfo({ store: memoryStore() })).rejects.toThrow(
    new TypeError('userInfo needs a store in which somebody is signed in'),
  )
})

test('a token that has ended is renewed to ask who signed in', async () => {
  const store = await newSignIn()
  await endToken(store)
  const before = await generationOf(store)
  expect(await userInfo({ store })).toMatchObject({ sub: person.userId })
  expect(await generationOf(store)).toBe(before + 1)
})

test('a device that is told to slow down asks less often, and gets its token once the person has approved', async () => {
  const waits = withoutWaiting(async (ms) => {
    // The first wait passes so fast that the platform finds the device impatient.
    if (ms > 5_000) {
      server.clock.advance(ms)
      await approveDevice(code, person)
    }
  })
  let code = { completeUrl: '', userCode: '' }
  const store = memoryStore()
  await byDevice(store, { onCode: (shown) => void (code = shown) })
  expect(waits).toEqual([5_000, 10_000])
  await listOrganizations(platformOf(store))
})

test('a device is told that the person refused, that the code has expired, and that the caller has had enough', async () => {
  const store = memoryStore()
  const refusing = byDevice(store, { onCode: (code) => refuseDevice(code, person) })
  await expect(refusing).rejects.toMatchObject({ status: 400, code: 'access_denied' })
  const enough = new AbortController()
  let meanwhile: () => void | Promise<void> = () => server.clock.advance(600_000)
  const waits = withoutWaiting(() => meanwhile())
  const idle = () => {}
  await expect(byDevice(store, { onCode: idle })).rejects.toMatchObject({ status: 400, code: 'expired_token' })
  expect(waits).toHaveLength(1)
  meanwhile = () => {
    enough.abort(new Error('enough'))
    return new Promise(() => {})
  }
  await expect(byDevice(store, { onCode: idle, signal: enough.signal })).rejects.toThrow('enough')
  expect(await store.read()).toBeUndefined()
})

test('a device that gets no answers asks on, less often, until its code has expired', async () => {
  const waits = withoutWaiting(() => {})
  const hasty: Fetch = async (url, init) => {
    if (url.endsWith('/oauth2/token')) return noAnswer()
    const answer = await fetch(url, init)
    return url.endsWith('/device_authorization')
      ? Response.json({ ...((await answer.json()) as object), expires_in: 26 })
      : answer
  }
  const trying = byDevice(memoryStore(), { onCode: () => {}, fetch: hasty })
  await expect(trying).rejects.toMatchObject({ code: 'expired_token', message: expect.stringContaining('in time') })
  expect(waits).toEqual([10_000, 15_000, 20_000, 25_000])
})

/** Walks through the pages as the person. Returns where the browser is sent back to. */
async function walk({ url }: CodeSignIn, browser = new Browser()): Promise<URL> {
  const { email, password } = person
  const page = await browser.follow(await browser.visit(url), server.idpUrl)
  const back = await browser.follow(await browser.submit(page, { email, password }), server.idpUrl)
  return new URL(back.location ?? '')
}

const beginByCode = () =>
  beginCodeSignIn({ baseUrl: server.apiUrl, clientId: server.publicClientId, redirectUri, scopes: everyScope })

test('a person signs in by redirects, on a machine whose clock is an hour ahead', async () => {
  const store = memoryStore()
  // The platform's clock goes by this one: it is moved back by as much.
  const now = Date.now
  vi.spyOn(Date, 'now').mockImplementation(() => now() + 3_600_000)
  server.clock.advance(-3_600_000)
  onTestFinished(() => {
    vi.restoreAllMocks()
    server.clock.advance(3_600_000)
  })
  const begun = JSON.parse(JSON.stringify(await beginByCode())) as CodeSignIn
  await finishCodeSignIn(begun, { callbackUrl: (await walk(begun)).href, store })
  expect(await listOrganizations(platformOf(store))).toMatchObject({ items: [] })
})

test('a sign-in with `maxAgeSeconds` asks a person whose session is older for the password, and nobody else', async () => {
  const browser = new Browser()
  await walk(await beginByCode(), browser)
  const begin = () =>
    beginCodeSignIn({
      baseUrl: server.apiUrl,
      clientId: server.publicClientId,
      redirectUri,
      scopes: everyScope,
      maxAgeSeconds: 900,
    })
  const { location } = await browser.follow(await browser.visit((await begin()).url), server.idpUrl)
  expect(location).toContain(`${redirectUri}?code=`)
  server.clock.advance(901_000)
  onTestFinished(() => server.clock.advance(-901_000))
  const begun = await begin()
  const store = memoryStore()
  await finishCodeSignIn(begun, { callbackUrl: (await walk(begun, browser)).href, store })
  const { auth_time: provenAt } = JSON.parse(
    Buffer.from((await readStored(store)).idToken?.split('.')[1] ?? '', 'base64url').toString(),
  ) as { auth_time: number }
  expect(provenAt * 1_000).toBeGreaterThan(server.clock.now().getTime() - 900_000)
})

test('a person who signed in for `openid` is signed out of the identity provider without a question, and comes back with the state', async () => {
  const afterwards = 'http://localhost:3000/bye'
  const { client } = await createClient(server.idp, {
    name: 'A page',
    kind: 'public',
    grants: ['authorization_code', 'refresh_token'],
    redirectUris: [redirectUri],
    postLogoutRedirectUris: [afterwards],
    scopes: '*',
    isFirstParty: true,
  })
  const signInFor = async (browser: Browser, scopes: string[]) => {
    const begun = await beginCodeSignIn({ baseUrl: server.apiUrl, clientId: client.id, redirectUri, scopes })
    const store = memoryStore()
    await finishCodeSignIn(begun, { callbackUrl: (await walk(begun, browser)).href, store })
    return store
  }
  const [browser, unnamed] = [new Browser(), new Browser()]
  const store = await signInFor(browser, ['openid', 'offline_access'])
  const url = await signOutUrl({ store, redirectUri: afterwards, state: 'a b' })
  expect((await browser.visit(url)).location).toBe(`${afterwards}?state=a+b`)
  expect((await browser.visit(`${server.idpUrl}/`)).location).toBe(`${server.idpUrl}/sign-in`)
  const plain = await signInFor(unnamed, ['offline_access'])
  const asking = await unnamed.visit(await signOutUrl({ store: plain, redirectUri: afterwards }))
  expect(asking.body).toContain('asks to sign you out')
  await expect(signOutUrl({ store: memoryStore(), redirectUri: afterwards })).rejects.toThrow(
    new TypeError('signOutUrl needs a store in which somebody is signed in'),
  )
})

test('the ID token of a sign-in for `openid` is stored, and a renewal that brings none keeps it', async () => {
  const store = await newSignIn()
  const { idToken: first } = await readStored(store)
  const claims = JSON.parse(Buffer.from(first?.split('.')[1] ?? '', 'base64url').toString()) as object
  expect(claims).toMatchObject({ iss: server.idpUrl, aud: server.publicClientId, sub: person.userId })
  await endToken(store)
  await platformOf(store).token()
  const { idToken: renewed } = await readStored(store)
  expect(renewed).not.toBe(first)
  await endToken(store)
  const withoutIdToken = atTokenEndpoint(async (send) => {
    const { id_token: _, ...answer } = (await (await send()).json()) as { id_token: string }
    return Response.json(answer)
  })
  await platformOf(store, withoutIdToken).token()
  expect((await readStored(store)).idToken).toBe(renewed)
  await byDevice(store, { scopes: ['offline_access'] })
  expect((await readStored(store)).idToken).toBeUndefined()
})

test('a code is not sent where the person comes back from another sign-in or another identity provider, or has refused', async () => {
  const begun = await beginByCode()
  const back = await walk(begun)
  const { fetch: send, ...counted } = counting()
  const store = memoryStore()
  const changed = (name: string, value?: string) => {
    const url = new URL(back)
    if (value === undefined) url.searchParams.delete(name)
    else url.searchParams.set(name, value)
    return finishCodeSignIn(begun, { callbackUrl: url.href, store, fetch: send })
  }
  await expect(changed('state', 'another')).rejects.toThrow('"state"')
  await expect(changed('state')).rejects.toThrow('"state" missing')
  await expect(changed('iss', 'https://id.example.com')).rejects.toThrow('"iss"')
  await expect(changed('iss')).rejects.toThrow('"iss" (issuer) missing')
  const denied = changed('error', 'access_denied')
  await expect(denied).rejects.toMatchObject({ status: 400, code: 'access_denied', message: 'access_denied' })
  expect(counted).toEqual({ tokenRequests: 0 })
  // The code itself was good, for whoever has the verifier.
  const other = await beginByCode()
  const stolen = { ...begun, verifier: other.verifier }
  await expect(finishCodeSignIn(stolen, { callbackUrl: back.href, store })).rejects.toMatchObject({
    code: 'invalid_grant',
  })
  await finishCodeSignIn(begun, { callbackUrl: back.href, store, fetch: send })
  await listOrganizations(platformOf(store))
})

test('200 calls at the end of a stored token make one refresh', async () => {
  const signedIn = await newSignIn()
  await endToken(signedIn)
  const before = await generationOf(signedIn)
  const platform = platformOf(signedIn)
  await Promise.all(Array.from({ length: 200 }, () => listOrganizations(platform)))
  expect(await generationOf(signedIn)).toBe(before + 1)
})

test('of two credentials that share a store and wait for its lock, one refreshes and the other sends nothing', async () => {
  const store = await newSignIn()
  await endToken(store)
  const counted = counting()
  await Promise.all([0, 1].map(() => listOrganizations(platformOf(store, counted.fetch))))
  expect(counted.tokenRequests).toBe(1)
})

test('a call near the end of a token goes on with it, and takes the token of whoever has renewed in the meantime', async () => {
  const signedIn = await newSignIn()
  const other = platformOf(signedIn)
  const platform = platformOf(signedIn)
  await endToken(signedIn)
  const [first, before] = [await platform.token(), await generationOf(signedIn)]
  const now = Date.now()
  const clock = vi.spyOn(Date, 'now').mockImplementation(() => now + 250_000)
  onTestFinished(() => clock.mockRestore())
  expect(await platform.token()).toBe(first)
  await vi.waitFor(async () => expect(await generationOf(signedIn)).toBe(before + 1), 60_000)
  const { accessToken } = await readStored(signedIn)
  await vi.waitFor(async () => expect(await platform.token()).toBe(accessToken), 60_000)
  expect(await other.token()).toBe(accessToken)
  expect(await generationOf(signedIn)).toBe(before + 1)
})

test('who loses the race for a refresh goes on with the winner’s token, and nobody is signed out', async () => {
  const signedIn = await newSignIn()
  await endToken(signedIn)
  const before = await generationOf(signedIn)
  // Their lock does not keep the two apart, as on a folder that two machines share.
  const apart = { ...signedIn, lock: <T>(work: () => Promise<T>) => work() }
  const loser = platformOf(
    apart,
    atTokenEndpoint(async (send) => {
      await platformOf(apart).token()
      return send()
    }),
  )
  await listOrganizations(loser)
  expect(await generationOf(signedIn)).toBe(before + 1)
  await endToken(signedIn)
  await listOrganizations(loser)
  expect(await generationOf(signedIn)).toBe(before + 2)
})

test('a refresh is repeated after a 503 and without an answer, and one that fails all the same leaves the store alone', async () => {
  const signedIn = await newSignIn()
  vi.spyOn(Math, 'random').mockReturnValue(0)
  onTestFinished(() => void vi.restoreAllMocks())
  await endToken(signedIn)
  const before = await readStored(signedIn)
  const unavailable = () => Promise.resolve(Response.json({ error: 'server_error' }, { status: 503 }))
  const failing = platformOf(signedIn, atTokenEndpoint(unavailable))
  await expect(listOrganizations(failing)).rejects.toMatchObject({ status: 503, operation: 'POST /oauth2/token' })
  const empty = platformOf(
    signedIn,
    atTokenEndpoint(() => Promise.resolve(Response.json({}))),
  )
  await expect(listOrganizations(empty)).rejects.toThrow('no token')
  expect(await signedIn.read()).toEqual(before)
  const script = [unavailable, noAnswer]
  await listOrganizations(
    platformOf(
      signedIn,
      atTokenEndpoint((send) => (script.shift() ?? send)()),
    ),
  )
  expect(script).toEqual([])
})

test('a person whose sign-in was revoked, or whose refresh was answered to nobody, is told to sign in again', async () => {
  vi.spyOn(Math, 'random').mockReturnValue(0)
  onTestFinished(() => void vi.restoreAllMocks())
  const store = memoryStore()
  const ends = async (platform: Platform) => {
    await endToken(store)
    const error: unknown = await listOrganizations(platform).catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ status: 401, code: 'invalid_grant', message: expect.stringMatching(/sign in/i) })
    expect(needsSignIn(error)).toBe(true)
    expect(await store.read()).toBeUndefined()
    await expect(listOrganizations(platform)).rejects.toMatchObject({ status: 401, message: /Nobody is signed in/ })
  }
  await byDevice(store)
  const copy = memoryStore()
  await copy.write(await store.read())
  await signOut({ store: copy })
  await ends(platformOf(store))
  await byDevice(store)
  let isLost = false
  await ends(
    platformOf(
      store,
      atTokenEndpoint(async (send) => {
        const answer = await send()
        if (isLost) return answer
        isLost = true
        return noAnswer()
      }),
    ),
  )
  await byDevice(store, { scopes: everyScope.filter((scope) => scope !== 'offline_access') })
  await ends(platformOf(store))
})

test('a sign-out revokes the refresh token and empties the store, which is empty without an answer too', async () => {
  vi.spyOn(Math, 'random').mockReturnValue(0)
  onTestFinished(() => void vi.restoreAllMocks())
  const store = memoryStore()
  await byDevice(store)
  const { refreshToken = '' } = await readStored(store)
  await expect(signOut({ store, fetch: noAnswer })).rejects.toMatchObject({ status: 0 })
  expect(await store.read()).toBeUndefined()
  await signOut({ store })
  await byDevice(store)
  const { refreshToken: revoked = '' } = await readStored(store)
  await signOut({ store })
  expect([await refresh(refreshToken), await refresh(revoked)]).toEqual([200, 400])
})

/** The status of a renewal by this refresh token. */
async function refresh(token = ''): Promise<number> {
  const form = { grant_type: 'refresh_token', client_id: server.publicClientId, refresh_token: token }
  return (await fetch(`${server.idpUrl}/oauth2/token`, { method: 'POST', body: new URLSearchParams(form) })).status
}

test('a page that is left revokes its sign-in by one form, which it sends at once, and which ends what was renewed in the meantime too', async () => {
  const [store, other] = [await newSignIn(), await newSignIn()]
  const sent: { url: string; init: RequestInit; answer: Promise<Response> }[] = []
  const send: Fetch = (url, init) => {
    const answer = fetch(url, init)
    sent.push({ url, init, answer })
    return answer
  }
  const leave = await prepareLeaving({ store, fetch: send })
  await endToken(store)
  await platformOf(store).token()
  const before = await readStored(store)
  sent.splice(0)
  leave()
  expect(sent).toMatchObject([
    {
      url: `${server.idpUrl}/oauth2/revoke`,
      init: { method: 'POST', keepalive: true, body: expect.any(URLSearchParams) },
    },
  ])
  // Headers of ours would have the browser ask first.
  expect(sent[0]?.init.headers).toBeUndefined()
  expect((await sent[0]?.answer)?.status).toBe(200)
  expect(await store.read()).toEqual(before)
  expect(await refresh(before.refreshToken)).toBe(400)
  expect(await refresh((await readStored(other)).refreshToken)).toBe(200)
})

test('a page that is left sends nothing where nobody is signed in or nothing is renewed, and does not mind an identity provider that is away', async () => {
  const asked: string[] = []
  const send: Fetch = (url, init) => {
    asked.push(url)
    return init.method === 'POST' ? noAnswer() : fetch(url, init)
  }
  const store = memoryStore()
  const leaveNobody = await prepareLeaving({ store, fetch: send })
  await byDevice(store, { scopes: ['openid'] })
  const leaveUnrenewed = await prepareLeaving({ store, fetch: send })
  leaveNobody()
  leaveUnrenewed()
  expect(asked).toEqual([])
  await byDevice(store)
  const leave = await prepareLeaving({ store, fetch: send })
  leave()
  leave()
  expect(asked.map((url) => new URL(url).pathname)).toEqual([
    '/.well-known/openid-configuration',
    '/oauth2/revoke',
    '/oauth2/revoke',
  ])
  await expect(prepareLeaving({ stores: store } as never)).rejects.toThrow('takes no "stores"')
})

test('a stored sign-in of another platform or client is refused before a request', async () => {
  const signedIn = await newSignIn()
  const foreign = await startHostileServer([() => {}])
  const credential = userToken({ store: signedIn })
  const platform = new Platform({ baseUrl: foreign.baseUrl, credential })
  const refusal = `The stored sign-in belongs to ${server.apiUrl}, not to ${foreign.baseUrl}`
  await expect(listOrganizations(platform)).rejects.toThrow(new TypeError(refusal))
  await expect(platform.token()).rejects.toThrow(refusal)
  const store = memoryStore()
  await store.write({ ...(await readStored(signedIn)), baseUrl: foreign.baseUrl })
  const ofAnother = userToken({ store, clientId: 'another' })
  const another = new Platform({ baseUrl: foreign.baseUrl, credential: ofAnother })
  await expect(listOrganizations(another)).rejects.toThrow('not to another')
  expect(foreign.requests).toEqual([])
  expect(() => userToken({ store, client: 'x' } as never)).toThrow('takes no "client"')
  expect(() => userToken({} as never)).toThrow('needs a store')
  await expect(byDevice(store, { scope: 'x' } as never)).rejects.toThrow('takes no "scope"')
})

test('two processes on one token file at the end of its token are both signed in by one refresh, ten times', async () => {
  const path = join(folder, 'two', 'token.json')
  const file = tokenFile(path)
  await byDevice(file)
  const processes = [0, 1].map(() => startSignInProcess({ path, baseUrl: server.apiUrl }))
  const outcomeOf = async ({ next }: (typeof processes)[0]) => {
    let said = await next()
    while (said === 'waits') said = await next()
    return said
  }
  expect(await Promise.all(processes.map(outcomeOf))).toEqual(['ready', 'ready'])
  for (let round = 1; round <= 10; round++) {
    const before = await generationOf(file)
    // A process that has just started finds the end in the file; one that has kept its token is told by a 401.
    const isNew = round % 2 === 1
    if (isNew) await endToken(file)
    else server.clock.advance(LIFE_MS)
    for (const each of processes) each.ask(isNew)
    expect(await Promise.all(processes.map(outcomeOf))).toEqual(['called', 'called'])
    expect(await generationOf(file)).toBe(before + 1)
  }
})

test('two processes that wait for a third are both signed in by one refresh when it is killed with the lock, ten times', async () => {
  const path = join(folder, 'killed', 'token.json')
  const file = tokenFile(path)
  await byDevice(file)
  const processes = [0, 1].map(() => startSignInProcess({ path, baseUrl: server.apiUrl }))
  const nextOfBoth = () => Promise.all(processes.map(({ next }) => next()))
  expect(await nextOfBoth()).toEqual(['ready', 'ready'])
  for (let round = 1; round <= 10; round++) {
    const holder = startSignInProcess({ path })
    expect(await holder.next()).toBe('holds')
    await endToken(file)
    const before = await generationOf(file)
    for (const each of processes) each.ask(true)
    expect(await nextOfBoth()).toEqual(['waits', 'waits'])
    await holder.kill()
    expect(await nextOfBoth()).toEqual(['called', 'called'])
    expect(await generationOf(file)).toBe(before + 1)
  }
  expect(await readdir(join(folder, 'killed'))).toEqual(['token.json'])
})

test('a process that was renewed and is idle ends by itself', async () => {
  const path = join(folder, 'idle', 'token.json')
  const file = tokenFile(path)
  await byDevice(file)
  await endToken(file)
  const source = (name: string) => JSON.stringify(import.meta.resolve(`../src/${name}.ts`))
  const program = `import { listOrganizations, Platform, userToken } from ${source('index')}
    import { tokenFile } from ${source('node/index')}
    const store = tokenFile(${JSON.stringify(path)})
    await listOrganizations(new Platform({ baseUrl: ${JSON.stringify(server.apiUrl)}, credential: userToken({ store }) }))
    const keeps = process.getActiveResourcesInfo().filter((name) => /Timeout|PipeServer/.test(name))
    process.exitCode = keeps.length === 0 ? 7 : 1`
  const child = spawn(process.execPath, ['--input-type=module', '--eval', program], { stdio: 'inherit' })
  expect(await once(child, 'exit')).toEqual([7, null])
})

test('nothing that is printed of a store, a credential, a Platform or a sign-in that has begun holds a token', async () => {
  const signedIn = await newSignIn()
  const file = tokenFile(join(folder, 'printed.json'))
  await file.write(await signedIn.read())
  const platform = platformOf(signedIn)
  await listOrganizations(platform)
  const { accessToken, refreshToken } = await readStored(signedIn)
  for (const each of [signedIn, file, userToken({ store: signedIn }), platform, await beginByCode()]) {
    const printed = `${inspect(each, { depth: 20, showHidden: true })}${JSON.stringify(each)}`
    for (const token of [accessToken, refreshToken]) expect(printed).not.toContain(token)
  }
})
