import { createPublicKey } from 'node:crypto'
import { deepStrictEqual } from 'node:assert/strict'
import { fileURLToPath } from 'node:url'
import type { JWK } from 'jose'
import type { Suite } from '../suite.ts'

const bare = fileURLToPath(import.meta.resolve('../peers/bare-read.ts'))
const fastify = fileURLToPath(import.meta.resolve('../peers/fastify-read.ts'))

export const read: Suite = {
  name: 'read',
  work: 'GET /organizations/{id} with a user token: limit in Redis, membership and row from Postgres',
  async prepare(lab) {
    const platform = await lab.platform()
    const organization = await platform.call<{ id: string }>('POST', '/organizations', { name: 'Bench' })
    const path = `/organizations/${organization.id}`

    const discovered = await fetch(`${platform.issuer}/.well-known/openid-configuration`)
    const { jwks_uri: jwksUri } = (await discovered.json()) as { jwks_uri: string }
    const { keys } = (await (await fetch(jwksUri)).json()) as { keys: JWK[] }
    const token = await platform.userToken()
    const { kid } = JSON.parse(Buffer.from(token.split('.')[0] ?? '', 'base64url').toString('utf8')) as { kid: string }
    const key = keys.find((each) => each.kid === kid)
    if (!key) throw new Error('The key of the token is not in the JWKS')
    const publicKey = createPublicKey({ key: { ...key }, format: 'jwk' }).export({ type: 'spki', format: 'pem' })
    const { aud: audience } = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString('utf8')) as {
      aud: string
    }

    const trust = { issuer: platform.issuer, audience }
    const peers = [
      {
        name: 'bare',
        ...(await lab.startPeer('bare', bare, { ...trust, jwksUri })),
        aim: { cpuRatioMax: 1.25 },
      },
      {
        name: 'fastify',
        ...(await lab.startPeer('fastify', fastify, { ...trust, publicKey })),
        aim: { throughputRatioMin: 3 },
      },
    ]
    return {
      load: {
        method: 'GET',
        path,
        headers: async () => ({ authorization: `Bearer ${await platform.userToken()}` }),
        addressBlock: 20,
        connections: 64,
      },
      ours: { name: 'ours', origin: platform.apiOrigin, pid: platform.apiPid },
      peers,
      async check(name, answer) {
        deepStrictEqual(await answer.json(), organization, `${name} answers something else than was created`)
      },
    }
  },
}
