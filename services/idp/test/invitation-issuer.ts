import { type KeyObject, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type CryptoKey, exportJWK, generateKeyPair, SignJWT } from 'jose'
import type { TestIdp } from './start.ts'

/** Put on top of what is right; undefined takes something out. */
type Overrides = Record<string, unknown>

/** An API that invites to its organizations, to an identity provider (D112). */
export interface InvitationIssuer {
  /** The origin that it names itself by. */
  url: string
  /** Its entry in INVITATION_ISSUERS. */
  entry: string
  publicKey: CryptoKey
  /** Another key that it publishes, of another algorithm; its assertions are not made with it. */
  edwards: { kid: string; key: CryptoKey }
  /** Where its metadata and its keys were read, in order. */
  readonly reads: readonly string[]
  /** What an assertion for the provider says. */
  claims(idp: Pick<TestIdp, 'url' | 'now'>, claims?: Overrides): Overrides
  /** An assertion, signed by its key unless another one is given. */
  invite(
    idp: Pick<TestIdp, 'url' | 'now'>,
    claims?: Overrides,
    signed?: { header?: Overrides; key?: CryptoKey | KeyObject | Uint8Array },
  ): Promise<string>
  close(): Promise<void>
}

const HOUR_SECONDS = 3_600
const KID = 'of-the-test'
const EDWARDS_KID = 'edwards-of-the-test'

const withoutUndefined = (values: Overrides): Overrides =>
  Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined))

/**
 * Starts an HTTP server that publishes the metadata and the key of such an API, as the platform's own does.
 *
 * publicUrl: the origin that it names itself by, if that is not where it listens.
 */
export async function startInvitationIssuer(publicUrl?: string): Promise<InvitationIssuer> {
  const { privateKey, publicKey } = await generateKeyPair('ES256', { extractable: true })
  const edwards = await generateKeyPair('EdDSA', { extractable: true })
  const jwks = {
    keys: [
      { ...(await exportJWK(publicKey)), kid: KID, alg: 'ES256', use: 'sig' },
      { ...(await exportJWK(edwards.publicKey)), kid: EDWARDS_KID, alg: 'EdDSA', use: 'sig' },
    ],
  }
  const reads: string[] = []
  const server = createServer(({ url: path = '' }, answer) => {
    reads.push(path)
    const documents: Record<string, object> = {
      '/.well-known/oauth-authorization-server': { issuer: url, jwks_uri: `${url}/.well-known/jwks.json` },
      '/.well-known/jwks.json': jwks,
    }
    const document = documents[path]
    answer.writeHead(document ? 200 : 404, { 'content-type': 'application/json' }).end(JSON.stringify(document ?? {}))
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const url = publicUrl ?? origin

  const issuer: InvitationIssuer = {
    url,
    entry: publicUrl === undefined ? origin : `${publicUrl}=${origin}`,
    publicKey,
    edwards: { kid: EDWARDS_KID, key: edwards.privateKey },
    reads,
    claims(idp, claims = {}) {
      const iat = Math.floor(idp.now().getTime() / 1_000)
      return withoutUndefined({
        iss: url,
        aud: idp.url,
        jti: randomUUID(),
        iat,
        exp: iat + HOUR_SECONDS,
        email: 'ada@example.com',
        role: 'MEMBER',
        organization: 'Analytical Engines',
        inviter: 'Charles Babbage',
        ...claims,
      })
    },
    invite: (idp, claims, { header = {}, key = privateKey } = {}) =>
      new SignJWT(issuer.claims(idp, claims))
        .setProtectedHeader({
          ...withoutUndefined({ typ: 'invitation+jwt', kid: KID, ...header }),
          alg: (header['alg'] as string | undefined) ?? 'ES256',
        })
        .sign(key),
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
  return issuer
}
