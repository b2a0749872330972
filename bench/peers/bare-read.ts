import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { createRemoteJWKSet, jwtVerify } from 'jose'
import postgres from 'postgres'
import { openCounter } from './count-hit.ts'
import { readSettings } from './settings.ts'

// GET /organizations/{id} as one would write it by hand for speed: no framework, a token verified once, one call of
// Redis, one query. It answers what ours answers and leaves out what ours does besides (docs/performance.md).

const { databaseUrl, redisUrl, port, issuer, audience, jwksUri } = readSettings('issuer', 'audience', 'jwksUri')
const sql = postgres(databaseUrl, { max: 10, connection: { application_name: 'bare-read' } })
const hit = openCounter(redisUrl, 'bench:bare-read:')
const jwks = createRemoteJWKSet(new URL(jwksUri))

const ADDRESS_MAX = 6_000
const TOKENS_MAX = 20_000
const verified = new Map<string, { userId: string; scopes: ReadonlySet<string>; expiresAt: number }>()

async function verify(token: string) {
  const known = verified.get(token)
  if (known && known.expiresAt > Date.now()) return known
  const { payload } = await jwtVerify(token, jwks, { algorithms: ['RS256'], typ: 'at+jwt', issuer, audience })
  const fresh = {
    userId: payload.sub ?? '',
    scopes: new Set(String(payload['scope']).split(' ')),
    expiresAt: (payload.exp ?? 0) * 1_000,
  }
  if (verified.size >= TOKENS_MAX) verified.clear()
  verified.set(token, fresh)
  return fresh
}

interface Organization {
  id: string
  name: string
  slug: string
  imageUrl: string | null
  createdAt: Date
  updatedAt: Date
}

function answer(res: ServerResponse, status: number, body: object): void {
  const text = JSON.stringify(body)
  res.writeHead(status, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }).end(text)
}

async function handle(req: IncomingMessage, res: ServerResponse): Promise<void> {
  const address = String(req.headers['x-forwarded-for'] ?? req.socket.remoteAddress)
  if ((await hit(address)) > ADDRESS_MAX) return answer(res, 429, { message: 'Too many requests' })
  const [, token] = /^Bearer (.+)$/.exec(req.headers.authorization ?? '') ?? []
  const actor = token === undefined ? undefined : await verify(token).catch(() => undefined)
  if (!actor) return answer(res, 401, { message: 'A valid token is required' })
  if (!actor.scopes.has('platform:organizations:read') && !actor.scopes.has('platform:organizations:write'))
    return answer(res, 403, { message: 'The token lacks a scope' })
  const [, id] = /^\/organizations\/([0-9a-f-]{36})$/.exec(req.url ?? '') ?? []
  if (id === undefined) return answer(res, 404, { message: 'Not found' })
  const [row] = await sql<Organization[]>`
    select o.id, o.name, o.slug, o.image_url as "imageUrl", o.created_at as "createdAt", o.updated_at as "updatedAt"
    from organizations o
    join organization_members m on m.organization_id = o.id and m.user_id = ${actor.userId}
    where o.id = ${id}`
  if (!row) return answer(res, 404, { message: 'Not found' })
  answer(res, 200, row)
}

createServer((req, res) => {
  handle(req, res).catch(() => answer(res, 500, { message: 'Failed' }))
}).listen(port, '127.0.0.1')
