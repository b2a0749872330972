import { generateKeyPairSync, randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { Provider } from 'oidc-provider'
import { readSettings } from './settings.ts'

// oidc-provider with its own adapter in memory, set up to answer what ours answers: RS256, access tokens as JWT, refresh
// tokens that rotate, the same scopes and claims. Tokens to begin with come from GET /seed, which ours has no part in.

const { port, issuer, clientId, redirectUri, audience } = readSettings('issuer', 'clientId', 'redirectUri', 'audience')
const accountId = randomUUID()
const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
const person = {
  sub: accountId,
  email: 'bench@example.com',
  email_verified: true,
  name: 'Bench Mark',
  given_name: 'Bench',
  family_name: 'Mark',
  updated_at: Math.floor(Date.now() / 1_000),
}
const scopes = ['openid', 'profile', 'email', 'offline_access']

const provider = new Provider(issuer, {
  clients: [
    {
      client_id: clientId,
      token_endpoint_auth_method: 'none',
      redirect_uris: [redirectUri],
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
    },
  ],
  jwks: { keys: [{ ...privateKey.export({ format: 'jwk' }), kid: randomUUID(), alg: 'RS256', use: 'sig' }] },
  scopes,
  claims: {
    openid: ['sub'],
    email: ['email', 'email_verified'],
    profile: ['name', 'given_name', 'family_name', 'updated_at'],
  },
  findAccount: (_, id) => ({ accountId: id, claims: () => person }),
  rotateRefreshToken: true,
  ttl: { AccessToken: 300, IdToken: 300, RefreshToken: 30 * 86_400, Grant: 30 * 86_400 },
  features: {
    devInteractions: { enabled: false },
    resourceIndicators: {
      enabled: true,
      useGrantedResource: () => true,
      getResourceServerInfo: () => ({
        scope: scopes.join(' '),
        audience,
        accessTokenTTL: 300,
        accessTokenFormat: 'jwt',
        jwt: { sign: { alg: 'RS256' } },
      }),
    },
  },
})

async function newTokens(scope: string): Promise<{ refresh_token: string; access_token: string }> {
  const client = await provider.Client.find(clientId)
  if (!client) throw new Error('The client is missing')
  const grant = new provider.Grant({ accountId, clientId })
  grant.addOIDCScope(scope)
  grant.addResourceScope(audience, scope)
  const grantId = await grant.save()
  const of = { client, accountId, grantId, gty: 'authorization_code', scope, expiresWithSession: false }
  const refreshToken = new provider.RefreshToken({ ...of, resource: audience, authTime: person.updated_at })
  // Its userinfo takes tokens without an audience only, which are looked up rather than signed.
  const accessToken = new provider.AccessToken(of)
  return { refresh_token: await refreshToken.save(), access_token: await accessToken.save() }
}

const handle = provider.callback()

async function seed(req: IncomingMessage, res: ServerResponse): Promise<void> {
  const { searchParams } = new URL(req.url ?? '', issuer)
  const count = Number(searchParams.get('count'))
  const scope = searchParams.get('scope') ?? ''
  const tokens = await Promise.all(Array.from({ length: count }, () => newTokens(scope)))
  res.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(tokens))
}

createServer((req, res) => {
  if (req.url?.startsWith('/seed?')) seed(req, res).catch((error: unknown) => res.writeHead(500).end(String(error)))
  else void handle(req, res)
}).listen(port, '127.0.0.1')
