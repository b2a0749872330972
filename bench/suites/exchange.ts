import { deepStrictEqual } from 'node:assert/strict'
import { fileURLToPath } from 'node:url'
import type { Suite } from '../suite.ts'

const bare = fileURLToPath(import.meta.resolve('../peers/bare-exchange.ts'))

export const exchange: Suite = {
  name: 'exchange',
  work: 'POST /oauth2/token with an API key: limit in Redis, key from Postgres, ES256 signature',
  async prepare(lab) {
    const platform = await lab.platform()
    const organization = await platform.call<{ id: string }>('POST', '/organizations', { name: 'Bench' })
    const application = await platform.call<{ id: string }>('POST', '/applications', {
      organizationId: organization.id,
      name: 'Bench',
    })
    const key = await platform.call<{ id: string; secret: string }>('POST', '/api-keys', {
      applicationId: application.id,
      name: 'Bench',
      scopes: ['network:env_vars:read'],
    })
    const issuer = platform.apiOrigin
    return {
      load: {
        method: 'POST',
        path: '/oauth2/token',
        headers: async () => ({ 'content-type': 'application/x-www-form-urlencoded' }),
        body: new URLSearchParams({
          grant_type: 'client_credentials',
          client_id: key.id,
          client_secret: key.secret,
        }).toString(),
        addressBlock: 30,
        connections: 64,
      },
      ours: { name: 'ours', origin: platform.apiOrigin, pid: platform.apiPid },
      peers: [{ name: 'bare', ...(await lab.startPeer('bare', bare, { issuer })), aim: { cpuRatioMax: 1.4 } }],
      async check(name, answer) {
        const { access_token: token, ...rest } = (await answer.json()) as { access_token: string }
        deepStrictEqual(rest, { token_type: 'Bearer', expires_in: 300, scope: 'network:env_vars:read' }, name)
        const [header = '', claims = ''] = token
          .split('.')
          .map((part) => Buffer.from(part, 'base64url').toString('latin1'))
        const { alg, typ } = JSON.parse(header) as { alg: string; typ: string }
        deepStrictEqual([alg, typ], ['ES256', 'at+jwt'], name)
        const { sub, client_id: clientId } = JSON.parse(claims) as { sub: string; client_id: string }
        deepStrictEqual([sub, clientId], [application.id, key.id], name)
      },
    }
  },
}
