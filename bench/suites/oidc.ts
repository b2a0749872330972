import { deepStrictEqual } from 'node:assert/strict'
import { fileURLToPath } from 'node:url'
import type { Tokens } from '@platform/testing/oauth-flow'
import { client } from '../identity-provider.ts'
import type { Lab } from '../lab.ts'
import { measureRsaSignatures } from '../rsa-limit.ts'
import type { Contender, Suite } from '../suite.ts'

// The identity provider against oidc-provider, which keeps everything in the memory of its one process.

const peer = fileURLToPath(import.meta.resolve('../peers/oidc-provider.ts'))
const CONNECTIONS = 64

/** Both servers, and for either one a way to tokens that belong to the same client and scopes. */
async function startBoth(lab: Lab) {
  const idp = await lab.identityProvider('server')
  const ours: Contender = { name: 'ours', origin: idp.origin, pid: idp.pid }
  const settings = { issuer: 'http://oidc.example.com', clientId: client.id, redirectUri: client.redirectUri }
  const theirs: Contender = {
    name: 'oidc-provider',
    ...(await lab.startPeer('oidc-provider', peer, { ...settings, audience: lab.audience })),
  }
  async function newTokens(of: Contender, count: number, scopes: readonly string[]): Promise<Tokens[]> {
    if (of.name === ours.name) {
      const first = await idp.newTokens(scopes) // signs in, so that the others need not
      const others = Array.from({ length: count - 1 }, () => idp.newTokens(scopes))
      return [first, ...(await Promise.all(others))]
    }
    const query = new URLSearchParams({ count: String(count), scope: scopes.join(' ') })
    const answer = await fetch(`${of.origin}/seed?${query.toString()}`)
    if (!answer.ok) throw new Error(`${of.name} made no tokens: ${await answer.text()}`)
    return (await answer.json()) as Tokens[]
  }
  return { ours, theirs, newTokens }
}

const partsOf = (jwt: unknown): Record<string, unknown>[] =>
  String(jwt)
    .split('.')
    .slice(0, 2)
    .map((part) => JSON.parse(Buffer.from(part, 'base64url').toString('utf8')) as Record<string, unknown>)

/** A session of 64 that is refreshed over and over: the refresh token rotates, and so many tokens are signed. */
const rotation = (name: string, scopes: readonly string[], signatures: 1 | 2): Suite => ({
  name,
  work: `POST /oauth2/token, a refresh token that rotates, ${signatures === 1 ? 'an access token' : 'an access and an ID token'} by RS256`,
  async prepare(lab) {
    const { ours, theirs, newTokens } = await startBoth(lab)
    return {
      load: {
        method: 'POST',
        path: '/oauth2/token',
        headers: async () => ({ 'content-type': 'application/x-www-form-urlencoded' }),
        async forms(of) {
          const tokens = await newTokens(of, CONNECTIONS, scopes)
          return tokens.map(({ refresh_token = '' }) =>
            new URLSearchParams({ grant_type: 'refresh_token', client_id: client.id, refresh_token }).toString(),
          )
        },
        addressBlock: 40,
        connections: CONNECTIONS,
      },
      ours,
      peers: [
        { ...theirs, path: '/token', aim: signatures === 2 ? { throughputRatioMin: 1.2 } : {} },
        {
          name: 'RSA limit',
          aim: {},
          measure: async (seconds) => ({ perSecond: await measureRsaSignatures(seconds) }),
        },
      ],
      async check(contender, answer) {
        const body = (await answer.json()) as Record<string, unknown>
        const [header, claims] = partsOf(body.access_token)
        deepStrictEqual([header?.alg, header?.typ, claims?.scope], ['RS256', 'at+jwt', scopes.join(' ')], contender)
        const expected = signatures === 1 ? undefined : 'RS256'
        deepStrictEqual(body.id_token === undefined ? undefined : partsOf(body.id_token)[0]?.alg, expected, contender)
        deepStrictEqual([body.token_type, body.expires_in], ['Bearer', 300], contender)
        deepStrictEqual(typeof body.refresh_token, 'string', contender)
      },
    }
  },
})

export const rotate = rotation('rotate', ['openid', 'offline_access'], 2)
export const rotateOnce = rotation('rotate-once', ['offline_access'], 1)

/** A document that every client and verifier reads. */
const document = (name: string, path: string, theirPath: string, member: string): Suite => ({
  name,
  work: `GET ${path}`,
  async prepare(lab) {
    const { ours, theirs } = await startBoth(lab)
    return {
      load: { method: 'GET', path, headers: async () => ({}), addressBlock: 42, connections: CONNECTIONS },
      ours,
      peers: [{ ...theirs, path: theirPath, aim: { throughputRatioMin: 2 } }],
      async check(contender, answer) {
        const body = (await answer.json()) as Record<string, unknown>
        deepStrictEqual(member in body, true, `${contender} answers no ${member}`)
      },
    }
  },
})

export const discovery = document(
  'discovery',
  '/.well-known/openid-configuration',
  '/.well-known/openid-configuration',
  'token_endpoint',
)
export const jwks = document('jwks', '/.well-known/jwks.json', '/jwks', 'keys')

/** Ours verifies a JWT and reads the person from Postgres; theirs looks both up in its memory. */
export const userinfo: Suite = {
  name: 'userinfo',
  work: 'GET userinfo with an access token of openid, profile and email',
  async prepare(lab) {
    const { ours, theirs, newTokens } = await startBoth(lab)
    const scopes = ['openid', 'profile', 'email']
    return {
      load: {
        method: 'GET',
        path: '/oauth2/userinfo',
        async headers(of) {
          const [tokens] = await newTokens(of, 1, scopes)
          return { authorization: `Bearer ${tokens?.access_token}` }
        },
        addressBlock: 44,
        connections: CONNECTIONS,
      },
      ours,
      peers: [{ ...theirs, path: '/me', aim: { throughputRatioMin: 2 } }],
      async check(contender, answer) {
        const { sub, updated_at, ...claims } = (await answer.json()) as Record<string, unknown>
        deepStrictEqual([typeof sub, typeof updated_at], ['string', 'number'], contender)
        const person = { name: 'Bench Mark', given_name: 'Bench', family_name: 'Mark' }
        deepStrictEqual(claims, { ...person, email: 'bench@example.com', email_verified: true }, contender)
      },
    }
  },
}
