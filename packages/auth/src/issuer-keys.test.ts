import { generateKeyPairSync, type KeyObject, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { exportJWK, SignJWT } from 'jose'
import { expect, onTestFinished, test } from 'vitest'
import { discoverIssuer, type IssuerKeys } from './issuer-keys.ts'
import { createTokenVerifier } from './token-verifier.ts'

const AUDIENCE = 'https://api.example.com'

interface SigningKey {
  kid: string
  privateKey: KeyObject
  publicKey: KeyObject
}
const newKey = (): SigningKey => ({ kid: randomUUID(), ...generateKeyPairSync('rsa', { modulusLength: 2048 }) })

/** Starts an issuer whose published keys can change and which can go offline, and a verifier of its tokens with a clock. */
async function startIssuer(published: SigningKey[]) {
  let nowMs = Date.now()
  let isAway = false
  let more = {}
  let reads = 0
  const server = createServer((request, response) => {
    if (isAway) return void request.socket.destroy()
    const answer = (body: object) => response.setHeader('content-type', 'application/json').end(JSON.stringify(body))
    if (request.url !== '/jwks')
      return answer({ issuer, jwks_uri: `${issuer}/jwks`, userinfo_endpoint: issuer, ...more })
    reads++
    Promise.all(
      published.map(async ({ kid, publicKey }) => ({ kid, alg: 'RS256', ...(await exportJWK(publicKey)) })),
    ).then(
      (keys) => answer({ keys }),
      () => response.destroy(),
    )
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const now = () => new Date(nowMs)
  const keys = discoverIssuer(issuer, issuer, now)
  const verifier = createTokenVerifier([{ issuer, audience: AUDIENCE, alg: 'RS256', keys }], now)
  return {
    url: issuer,
    keys,
    verify: (token: string) =>
      verifier.verify(token).then(
        () => 'accepted',
        (error: Error) => error.message,
      ),
    /** Signs a token that is valid for an hour, as somebody who stole the key would. */
    sign: (key: SigningKey) =>
      new SignJWT({ client_id: 'c', scope: '' })
        .setProtectedHeader({ alg: 'RS256', typ: 'at+jwt', kid: key.kid })
        .setIssuer(issuer)
        .setAudience(AUDIENCE)
        .setSubject('s')
        .setJti(randomUUID())
        .setIssuedAt(now())
        .setExpirationTime(new Date(nowMs + 3_600_000))
        .sign(key.privateKey),
    publish: (...keysNow: SigningKey[]) => void (published = keysNow),
    publishMore: (members: object) => void (more = members),
    away: (state: boolean) => void (isAway = state),
    advance: (ms: number) => void (nowMs += ms),
    reads: () => reads,
  }
}

test('a withdrawn key is refused when the JWKS is 300 s old, though nobody brought a token of the new one (B §2)', async () => {
  const leaked = newKey()
  const issuer = await startIssuer([leaked])
  const token = await issuer.sign(leaked)
  expect(await issuer.verify(token)).toBe('accepted')
  issuer.publish(newKey())
  issuer.advance(299_999)
  expect(await issuer.verify(token)).toBe('accepted')
  expect(issuer.reads()).toBe(1)
  issuer.advance(1)
  expect(await issuer.verify(token)).toBe('The token is signed by an unknown key')
  expect(issuer.reads()).toBe(2)
})

test('the first token of a new key is accepted, and ends the trust in the withdrawn one', async () => {
  const [leaked, next] = [newKey(), newKey()]
  const issuer = await startIssuer([leaked])
  const token = await issuer.sign(leaked)
  expect(await issuer.verify(token)).toBe('accepted')
  issuer.publish(next)
  // An unknown kid may trigger a reload once a second, by the machine's clock.
  const fresh = await issuer.sign(next)
  await expect.poll(() => issuer.verify(fresh)).toBe('accepted')
  expect(await issuer.verify(token)).toBe('The token is signed by an unknown key')
})

test('while the issuer is away the known keys go on, and it is asked again every 10 s', async () => {
  const key = newKey()
  const issuer = await startIssuer([key])
  const token = await issuer.sign(key)
  expect(await issuer.verify(token)).toBe('accepted')
  issuer.away(true)
  issuer.advance(300_000)
  for (let n = 0; n < 3; n++) expect(await issuer.verify(token)).toBe('accepted')
  issuer.away(false)
  issuer.publish(newKey())
  expect(await issuer.verify(token)).toBe('accepted') // not read again yet
  issuer.advance(10_000)
  // Now read in the background: nobody waits for an issuer that was offline.
  await expect.poll(() => issuer.verify(token)).toBe('The token is signed by an unknown key')
})

test('a token whose key is withdrawn while its signature is checked is not remembered', async () => {
  const leaked = newKey()
  let version = 'with the leaked key'
  const keys: IssuerKeys = {
    async find() {
      if (version !== 'with the leaked key') throw new Error('unknown')
      setImmediate(() => (version = 'without it'))
      return leaked.publicKey
    },
    version: () => version,
    isFresh: () => true,
  }
  const issuer = await startIssuer([leaked])
  const token = await issuer.sign(leaked)
  const trusted = { issuer: issuer.url, audience: AUDIENCE, alg: 'RS256' as const, keys }
  const verifier = createTokenVerifier([trusted], () => new Date())
  await verifier.verify(token)
  expect(version).toBe('without it')
  expect(verifier.peek(token)).toBeUndefined()
  await expect(verifier.verify(token)).rejects.toThrow('not valid')
})

test('a token lives as long as expires_in said, whatever its issue lost by rounding down (D93)', async () => {
  const key = newKey()
  const issuer = await startIssuer([key])
  const token = await issuer.sign(key)
  expect(await issuer.verify(token)).toBe('accepted')
  issuer.advance(3_600_000 - 1)
  expect(await issuer.verify(token)).toBe('accepted')
  issuer.advance(1_001)
  expect(await issuer.verify(token)).toBe('The token has expired')
  expect(await issuer.verify(await issuer.sign(key))).toBe('accepted')
})

test('a check fails while the issuer is away, and costs nobody the known keys', async () => {
  const key = newKey()
  const issuer = await startIssuer([key])
  await issuer.keys.check()
  expect(issuer.reads()).toBe(1)
  issuer.away(true)
  await expect(issuer.keys.check()).rejects.toBeInstanceOf(Error)
  expect(await issuer.verify(await issuer.sign(key))).toBe('accepted')
  issuer.away(false)
  await issuer.keys.check()
})

test('an issuer is read from another origin and path, and its pages keep the origin that browsers know', async () => {
  const server = createServer(({ url }, response) => {
    response.setHeader('content-type', 'application/json')
    const found = {
      issuer,
      jwks_uri: `${issuer}/jwks`,
      userinfo_endpoint: `${issuer}/me`,
      invitation_endpoint: `${issuer}/join`,
    }
    response.end(JSON.stringify(url === '/metadata' ? found : { issuer: 'somebody else' }))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  const issuer = 'https://id.example.com'
  const inside = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const keys = discoverIssuer(issuer, inside, () => new Date(), '/metadata')
  expect((await keys.endpoint('userinfo_endpoint')).href).toBe(`${inside}/me`)
  expect((await keys.page('invitation_endpoint')).href).toBe(`${issuer}/join`)
})

test('a page that an issuer does not publish is unavailable (503), and found within 10 s once it does', async () => {
  const issuer = await startIssuer([])
  const page = () =>
    issuer.keys.page('invitation_endpoint').then(
      ({ href }) => href,
      ({ status }: { status: number }) => status,
    )
  expect(await page()).toBe(503)
  issuer.publishMore({ invitation_endpoint: 'https://id.example.com/join' })
  issuer.advance(9_999)
  expect(await page()).toBe(503)
  issuer.advance(1)
  expect(await page()).toBe('https://id.example.com/join')
})
