import { inspect } from 'node:util'
import { expect, onTestFinished, test, vi } from 'vitest'
import { listOrganizations, memoryStore, Platform, PlatformError, userToken } from '../src/index.ts'
import {
  beginCodeSignIn,
  type DeviceSignIn,
  finishCodeSignIn,
  finishDeviceSignIn,
  prepareLeaving,
  signInByDevice,
  signOut,
  signOutUrl,
  userInfo,
} from '../src/sign-in/index.ts'
import { type Behaviour, json, startHostileServer } from './hostile-server.ts'

const CANARY = 'canary-0123456789'
const ENDPOINTS = {
  authorization_endpoint: '/authorize',
  token_endpoint: '/token',
  device_authorization_endpoint: '/device',
  revocation_endpoint: '/revoke',
  userinfo_endpoint: '/userinfo',
  end_session_endpoint: '/logout',
}
const device = json(200, {
  device_code: `${CANARY}-device`,
  user_code: 'ABCD-EFGH',
  verification_uri: 'http://localhost/device',
  expires_in: 600,
})

/**
 * A platform whose identity provider is at the path `/idp` of the same origin. answers: of its endpoints, by path; metadata and
 * resource: what its documents say otherwise.
 */
async function startHostileIssuer(
  answers: Record<string, Behaviour> = {},
  { metadata = {}, resource = {} }: { metadata?: object; resource?: object } = {},
) {
  const { baseUrl, requests } = await startHostileServer([
    (response, request) => {
      const issuer = `${baseUrl}/idp`
      const path = request.path.replace('/idp', '')
      const endpoints = Object.entries(ENDPOINTS).map(([name, place]) => [name, issuer + place])
      const documents: Record<string, Behaviour> = {
        '/.well-known/oauth-protected-resource': json(200, {
          resource: baseUrl,
          authorization_servers: [baseUrl, issuer],
          ...resource,
        }),
        '/.well-known/openid-configuration': json(200, {
          issuer,
          ...Object.fromEntries(endpoints),
          ...metadata,
        }),
        '/device': device,
      }
      return (answers[path] ?? documents[path] ?? json(404, { error: 'not_found' }))(response, request)
    },
  ])
  const store = memoryStore()
  await store.write({
    baseUrl,
    issuer: `${baseUrl}/idp`,
    clientId: 'client',
    accessToken: `${CANARY}-access`,
    refreshToken: `${CANARY}-refresh`,
    expiresAt: 0,
  })
  const redirectUri = 'http://localhost:3000/callback'
  return {
    baseUrl,
    requests,
    store,
    byDevice: () => signInByDevice({ baseUrl, scopes: ['openid'], store: memoryStore(), onCode: () => {} }),
    async byCode() {
      const begun = await beginCodeSignIn({ baseUrl, clientId: 'client', redirectUri, scopes: ['openid'] })
      const back = new URLSearchParams({ code: `${CANARY}-code`, state: begun.state, iss: begun.issuer })
      await finishCodeSignIn(begun, { callbackUrl: `${redirectUri}?${back.toString()}`, store: memoryStore() })
    },
    call: () => listOrganizations(new Platform({ baseUrl, credential: userToken({ store }) })),
    /** Of which another process had begun the sign-in. */
    resume: (more: Partial<DeviceSignIn> = {}) => {
      const begun = { ...begunAt(baseUrl), issuer: `${baseUrl}/idp`, ...more }
      return finishDeviceSignIn(begun, { store: memoryStore(), wait: false })
    },
    /** With a token that is still good. */
    async userInfo() {
      const stored = await store.read()
      if (stored) await store.write({ ...stored, expiresAt: Date.now() + 300_000 })
      await userInfo({ store })
    },
    prepareLeaving: () => prepareLeaving({ store }),
    signOutUrl: () => signOutUrl({ store, redirectUri: 'http://localhost:3000/' }),
    signOut: () => signOut({ store }),
  }
}

const begunAt = (baseUrl: string): DeviceSignIn => ({
  userCode: 'ABCD-EFGH',
  url: `${baseUrl}/idp/device`,
  completeUrl: `${baseUrl}/idp/device`,
  endsAt: Date.now() + 600_000,
  baseUrl,
  issuer: baseUrl,
  clientId: 'client',
  deviceCode: `${CANARY}-device`,
  intervalMs: 5_000,
})

/** Everything that sends a secret to the identity provider. The sign-out is the last: it empties the store. */
const worksOf = ({ byDevice, byCode, resume, call, userInfo: ask, signOut: leave }: Hostile) => [
  byDevice,
  byCode,
  () => resume(),
  call,
  ask,
  leave,
]

/** Everything that reads where secrets go, though it is the page's end or the browser that takes them there. */
const preparationsOf = ({ prepareLeaving: prepare, signOutUrl: ask }: Hostile) => [prepare, ask]

type Hostile = Awaited<ReturnType<typeof startHostileIssuer>>

const errorOf = (work: Promise<unknown>): Promise<unknown> => work.catch((thrown: unknown) => thrown)

test('nothing is sent to an identity provider that calls itself otherwise', async () => {
  const issuer = 'https://id.example.com'
  const hostile = await startHostileIssuer({}, { metadata: { issuer } })
  const sentence = `The identity provider ${hostile.baseUrl}/idp calls itself ${issuer}`
  for (const work of [...preparationsOf(hostile), ...worksOf(hostile)]) await expect(work()).rejects.toThrow(sentence)
  expect(hostile.requests.filter(({ method }) => method !== 'GET')).toEqual([])
  expect(hostile.requests.filter(({ path }) => path === '/idp/userinfo')).toEqual([])
})

test('nothing is sent to endpoints of another origin than the identity provider’s', async () => {
  const elsewhere = await startHostileServer([device])
  for (const [name, path] of Object.entries(ENDPOINTS)) {
    const hostile = await startHostileIssuer({}, { metadata: { [name]: elsewhere.baseUrl + path } })
    for (const work of [...preparationsOf(hostile), ...worksOf(hostile)])
      await expect(work()).rejects.toThrow(`The ${name} of ${hostile.baseUrl}/idp is of another origin`)
  }
  const incomplete = await startHostileIssuer({}, { metadata: { token_endpoint: undefined } })
  await expect(incomplete.call()).rejects.toThrow('token_endpoint')
  expect(elsewhere.requests).toEqual([])
})

test('no redirect is followed with a code or a refresh token', async () => {
  const elsewhere = await startHostileServer([json(200, {})])
  const leads: Behaviour = (response) => response.writeHead(307, { location: `${elsewhere.baseUrl}/token` }).end()
  const hostile = await startHostileIssuer({ '/token': leads, '/revoke': leads, '/userinfo': leads })
  let sent: Promise<Response> | undefined
  const leave = await prepareLeaving({ store: hostile.store, fetch: (url, init) => (sent = fetch(url, init)) })
  leave()
  expect(await sent).toMatchObject({ status: 307 })
  for (const work of worksOf(hostile)) await expect(work()).rejects.toMatchObject({ status: 307 })
  expect(elsewhere.requests).toEqual([])
})

test('a platform that names itself otherwise, or no identity provider, or one that is less protected, is refused', async () => {
  const renamed = await startHostileIssuer({}, { resource: { resource: 'https://api.example.com' } })
  await expect(renamed.byDevice()).rejects.toThrow(`${renamed.baseUrl} calls itself https://api.example.com`)
  const alone = await startHostileIssuer({}, { resource: { authorization_servers: undefined } })
  await expect(alone.byDevice()).rejects.toThrow('names no identity provider')
  const baseUrl = 'https://api.example.com'
  const asked: string[] = []
  const insecure = signInByDevice({
    baseUrl,
    scopes: [],
    store: memoryStore(),
    onCode: () => {},
    fetch: (url) => {
      asked.push(url)
      return Promise.resolve(Response.json({ resource: baseUrl, authorization_servers: ['http://id.example.com'] }))
    },
  })
  await expect(insecure).rejects.toThrow('http://id.example.com is not on HTTPS')
  expect(asked).toEqual([`${baseUrl}/.well-known/oauth-protected-resource`])
})

test('a sign-in that another process began is not finished at an identity provider that is less protected than the platform, or calls itself otherwise', async () => {
  const issuer = 'http://id.example.com'
  const asked: string[] = []
  const finishing = finishDeviceSignIn(
    { ...begunAt('https://api.example.com'), issuer },
    {
      store: memoryStore(),
      fetch: (url) => {
        asked.push(url)
        return Promise.reject(new Error('A request was made'))
      },
    },
  )
  await expect(finishing).rejects.toThrow(`${issuer} is not on HTTPS`)
  expect(asked).toEqual([])
  const hostile = await startHostileIssuer()
  await expect(hostile.resume({ issuer: `${hostile.baseUrl}/other` })).rejects.toMatchObject({ status: 404 })
  const named = await startHostileIssuer({}, { metadata: { issuer: 'http://localhost:1' } })
  await expect(named.resume()).rejects.toThrow('calls itself http://localhost:1')
  expect([...hostile.requests, ...named.requests].filter(({ method }) => method !== 'GET')).toEqual([])
})

test('no error of a sign-in, a renewal or a sign-out repeats a secret, whatever the identity provider answers', async () => {
  vi.spyOn(Math, 'random').mockReturnValue(0)
  onTestFinished(() => void vi.restoreAllMocks())
  const echo =
    (status: number): Behaviour =>
    (response, { body }) => {
      const sent = decodeURIComponent(body.toString())
      json(status, { error: sent, error_description: sent, errors: [{ property: sent, message: sent }] })(
        response,
        {} as never,
      )
    }
  const wrong = [
    { access_token: CANARY },
    { access_token: CANARY, token_type: CANARY },
    { access_token: CANARY, token_type: 'Bearer', expires_in: 300, id_token: CANARY },
    { refresh_token: CANARY, device_code: CANARY },
  ].map((body) => json(200, body))
  const expectNoSecret = (error: unknown) => {
    expect(error).toBeInstanceOf(PlatformError)
    const printed = `${inspect(error, { depth: 20, showHidden: true })}${JSON.stringify(error)}${(error as Error).stack}`
    expect(printed).not.toContain('canary')
  }
  for (const answer of [...[302, 400, 401, 403, 429, 503].map(echo), ...wrong]) {
    const hostile = await startHostileIssuer({ '/token': answer, '/revoke': answer })
    const odd = await startHostileIssuer({ '/device': answer })
    for (const work of [hostile.byCode, odd.byDevice, hostile.call]) expectNoSecret(await errorOf(work()))
  }
  for (const answer of [echo(400), ...wrong]) {
    const hostile = await startHostileIssuer({ '/token': answer, '/revoke': echo(400) })
    for (const work of [hostile.byDevice, hostile.resume, hostile.signOut]) expectNoSecret(await errorOf(work()))
  }
})
