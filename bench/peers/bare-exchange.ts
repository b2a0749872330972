import { createHash, generateKeyPairSync, randomUUID, sign, timingSafeEqual } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import postgres from 'postgres'
import { openCounter } from './count-hit.ts'
import { readSettings } from './settings.ts'

// POST /oauth2/token for an API key, by hand: a counter, a form, one point read, one hash, one ES256 signature.

const { databaseUrl, redisUrl, port, issuer } = readSettings('issuer')
const sql = postgres(databaseUrl, { max: 10, connection: { application_name: 'bare-exchange' } })
const hit = openCounter(redisUrl, 'bench:bare-exchange:')

const ADDRESS_MAX = 600
const LIFETIME_SECONDS = 300
const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
const base64url = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url')
const header = base64url({ alg: 'ES256', typ: 'at+jwt', kid: randomUUID() })

interface ApiKey {
  id: string
  applicationId: string
  scopes: string[]
  secretHash: Buffer
  expiresAt: Date | null
  deletedAt: Date | null
}

function answer(res: ServerResponse, status: number, body: object): void {
  const text = JSON.stringify(body)
  res
    .writeHead(status, {
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(text),
      'cache-control': 'no-store',
    })
    .end(text)
}

const readBody = (req: IncomingMessage): Promise<string> =>
  new Promise((resolve, reject) => {
    let text = ''
    req
      .setEncoding('utf8')
      .on('data', (chunk: string) => (text += chunk))
      .on('end', () => resolve(text))
      .on('error', reject)
  })

async function handle(req: IncomingMessage, res: ServerResponse): Promise<void> {
  const address = String(req.headers['x-forwarded-for'] ?? req.socket.remoteAddress)
  if ((await hit(address)) > ADDRESS_MAX) return answer(res, 429, { error: 'too_many_requests' })
  if (req.method !== 'POST' || req.url !== '/oauth2/token') return answer(res, 404, { error: 'not_found' })
  const form = new URLSearchParams(await readBody(req))
  if (form.get('grant_type') !== 'client_credentials') return answer(res, 400, { error: 'unsupported_grant_type' })
  const id = form.get('client_id') ?? ''
  const [key] = await sql<ApiKey[]>`
    select id, application_id as "applicationId", scopes, secret_hash as "secretHash", expires_at as "expiresAt",
      deleted_at as "deletedAt"
    from api_keys where id = ${id}`
  const digest = createHash('sha256')
    .update(form.get('client_secret') ?? '')
    .digest()
  if (!key || key.deletedAt || !timingSafeEqual(digest, key.secretHash))
    return answer(res, 401, { error: 'invalid_client' })
  const iat = Math.floor(Date.now() / 1_000)
  const exp = Math.min(
    iat + LIFETIME_SECONDS,
    Math.floor((key.expiresAt?.getTime() ?? Number.POSITIVE_INFINITY) / 1_000),
  )
  const scope = key.scopes.join(' ')
  const claims = {
    iss: issuer,
    aud: issuer,
    sub: key.applicationId,
    client_id: key.id,
    scope,
    jti: randomUUID(),
    iat,
    exp,
  }
  const signed = `${header}.${base64url(claims)}`
  const signature = sign('sha256', Buffer.from(signed), { key: privateKey, dsaEncoding: 'ieee-p1363' })
  answer(res, 200, {
    access_token: `${signed}.${signature.toString('base64url')}`,
    token_type: 'Bearer',
    expires_in: exp - iat,
    scope,
  })
}

createServer((req, res) => {
  handle(req, res).catch(() => answer(res, 500, { error: 'server_error' }))
}).listen(port, '127.0.0.1')
