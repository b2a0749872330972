import { deepStrictEqual } from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { GetObjectCommand, ListObjectsV2Command, PutObjectCommand, S3Client } from '@aws-sdk/client-s3'
import { Browser } from '@platform/testkit/browser'

interface Where {
  baseUrl: string
  idpUrl: string
  cliClientId: string
  demo: { email: string; password: string }
}

const scopes = [
  'openid',
  'profile',
  'email',
  'offline_access',
  'platform:organizations:write',
  'platform:api_keys:write',
  'network:applications:write',
  'network:env_vars:read',
  'network:env_vars:write',
  'network:storage:read',
  'network:storage:write',
  'network:storage:delete',
]

function say(step: string, ...details: string[]): void {
  process.stdout.write(`\n${step}\n${details.map((line) => `    ${line}\n`).join('')}`)
}

/** Sends a request and demands its status. Prints method, path and status; never a secret. */
async function ask<T>(url: string, status: number, init: RequestInit = {}): Promise<T> {
  const answer = await fetch(url, init)
  const text = await answer.text()
  // The URL of an upload ends in its token.
  const path = new URL(url).pathname.replace(/^(\/files\/[^.]+).*/, '$1.…')
  process.stdout.write(`    ${init.method ?? 'GET'} ${path} → ${answer.status}\n`)
  if (answer.status !== status) throw new Error(`Expected ${status} from ${url}, got ${answer.status}: ${text}`)
  return (text === '' ? undefined : JSON.parse(text)) as T
}

const form = (fields: Record<string, string>): RequestInit => ({ method: 'POST', body: new URLSearchParams(fields) })
const json = (token: string, body: object): RequestInit => ({
  method: 'POST',
  headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
  body: JSON.stringify(body),
})

/** Device authorization as a command-line tool does it, with a person at a browser beside it. */
async function signIn({ idpUrl, cliClientId, demo }: Where): Promise<string> {
  interface Discovery {
    token_endpoint: string
    device_authorization_endpoint: string
  }
  say('1. The command-line client reads where things are and asks for a device code')
  const endpoints = await ask<Discovery>(`${idpUrl}/.well-known/openid-configuration`, 200)
  interface Device {
    device_code: string
    user_code: string
    verification_uri: string
    verification_uri_complete: string
    interval: number
  }
  const device = await ask<Device>(
    endpoints.device_authorization_endpoint,
    200,
    form({ client_id: cliClientId, scope: scopes.join(' ') }),
  )
  const poll = form({
    grant_type: 'urn:ietf:params:oauth:grant-type:device_code',
    client_id: cliClientId,
    device_code: device.device_code,
  })
  const pending = await ask<{ error: string }>(endpoints.token_endpoint, 400, poll)
  deepStrictEqual(pending.error, 'authorization_pending')

  say(`2. The person opens ${device.verification_uri}, signs in as ${demo.email} and approves ${device.user_code}`)
  const browser = new Browser()
  let page = await browser.follow(await browser.visit(device.verification_uri_complete), idpUrl)
  if (!page.body.includes('name="password"'))
    throw new Error(`Expected the sign-in page, got ${page.status}: ${page.body.slice(0, 500)}`)
  page = await browser.follow(await browser.submit(page, { email: demo.email, password: demo.password }), idpUrl)
  if (!page.body.includes(device.user_code))
    throw new Error(`Expected the approval page with the code, got ${page.status}: ${page.body.slice(0, 500)}`)
  page = await browser.follow(await browser.submit(page, {}, { name: 'decision', value: 'approve' }), idpUrl)
  if (page.status !== 200)
    throw new Error(`Expected the approval to be confirmed, got ${page.status}: ${page.body.slice(0, 500)}`)

  say('3. The client polls again and has its tokens')
  await sleep(device.interval * 1_000)
  interface Tokens {
    access_token: string
    refresh_token: string
    id_token: string
    expires_in: number
  }
  const tokens = await ask<Tokens>(endpoints.token_endpoint, 200, poll)
  deepStrictEqual([tokens.expires_in, typeof tokens.refresh_token, typeof tokens.id_token], [300, 'string', 'string'])
  return tokens.access_token
}

/** The platform's main job, as a stranger would do it. Throws at the first answer that is not the documented one. */
export async function walk(where: Where): Promise<void> {
  const { baseUrl } = where
  const token = await signIn(where)

  say('4. An organization and an application in it')
  const stamp = new Date()
    .toISOString()
    .replaceAll(/[^0-9]/g, '')
    .slice(0, 14)
  const organization = await ask<{ id: string; slug: string }>(
    `${baseUrl}/organizations`,
    201,
    json(token, { name: `Demo ${stamp}` }),
  )
  const application = await ask<{ id: string; slug: string }>(
    `${baseUrl}/applications`,
    201,
    json(token, { organizationId: organization.id, name: 'Shop' }),
  )

  say('5. Variables on all three layers, one of them sensitive')
  const create = (owner: string, variable: object) =>
    ask<{ value: string | null }>(`${baseUrl}${owner}/env-vars`, 201, json(token, variable))
  await create(`/organizations/${organization.id}`, { key: 'REGION', value: 'eu' })
  await create(`/organizations/${organization.id}`, { key: 'LOG_LEVEL', value: 'warn' })
  await create(`/applications/${application.id}`, { key: 'LOG_LEVEL', value: 'info' })
  await create(`/applications/${application.id}`, { key: 'LOG_LEVEL', value: 'debug', environment: 'production' })
  const sensitive = await create(`/applications/${application.id}`, {
    key: 'DB_PASSWORD',
    value: 'correct horse',
    sensitive: true,
  })
  deepStrictEqual(sensitive.value, null)

  say('6. An API key, exchanged for a token that acts as the application')
  interface NewKey {
    id: string
    secret: string
    scopes: string[]
    expiresAt: string
  }
  const key = await ask<NewKey>(
    `${baseUrl}/api-keys`,
    201,
    json(token, { name: 'demo', applicationId: application.id }),
  )
  deepStrictEqual(key.scopes, ['network:env_vars:read'])
  const exchange = form({ grant_type: 'client_credentials', client_id: key.id, client_secret: key.secret })
  const machine = await ask<{ access_token: string; expires_in: number }>(`${baseUrl}/oauth2/token`, 200, exchange)
  deepStrictEqual(machine.expires_in, 300)

  say('7. The key pulls the merged variables; the sensitive one is counted and left out')
  const bearer = { headers: { authorization: `Bearer ${machine.access_token}` } }
  const pulled = await ask(
    `${baseUrl}/applications/${application.id}/env-vars/pull?environment=production`,
    200,
    bearer,
  )
  deepStrictEqual(pulled, {
    items: [
      { key: 'LOG_LEVEL', value: 'debug', source: 'environment' },
      { key: 'REGION', value: 'eu', source: 'organization' },
    ],
    total: 2,
    omittedSensitive: 1,
  })
  process.stdout.write(`    ${JSON.stringify(pulled)}\n`)

  say('8. What the key must not do')
  await ask(`${baseUrl}/organizations/${organization.id}`, 403, bearer)
  await ask(`${baseUrl}/api-keys?applicationId=${application.id}`, 403, bearer)

  say('9. The key is revoked: the next exchange fails at once')
  await ask(`${baseUrl}/api-keys/${key.id}`, 204, { method: 'DELETE', headers: { authorization: `Bearer ${token}` } })
  const refused = await ask<{ error: string }>(`${baseUrl}/oauth2/token`, 401, exchange)
  deepStrictEqual(refused.error, 'invalid_token')

  await store(where, token, application.id)

  say('All answers were right.')
}

/** A GET of a URL whose host may not resolve here: names below localhost do in browsers and in curl, not everywhere. */
async function open(url: string): Promise<Buffer> {
  const { host, hostname, port, pathname, search } = new URL(url)
  const target = hostname.endsWith('.localhost') ? 'localhost' : hostname
  const sent = request({ host: target, port, path: `${pathname}${search}`, headers: { host } }).end()
  const [answer] = (await once(sent, 'response')) as [IncomingMessage]
  process.stdout.write(`    GET ${host}${pathname} → ${answer.statusCode}\n`)
  if (answer.statusCode !== 200) throw new Error(`Expected 200 from ${url}, got ${answer.statusCode}`)
  return buffer(answer)
}

/** Files: by an S3 client, by a resumable upload, through the trash and back, and out by URL. */
async function store({ baseUrl }: Where, token: string, applicationId: string): Promise<void> {
  const bearer = { authorization: `Bearer ${token}` }
  const environment = `${baseUrl}/applications/${applicationId}/environments/production`

  say('10. A bucket, and an API key that an S3 client can sign with')
  await ask(`${environment}/storage/buckets`, 201, json(token, { name: 'media' }))
  const scopes = ['network:storage:read', 'network:storage:write', 'network:storage:delete']
  const key = await ask<{ id: string; secret: string }>(
    `${baseUrl}/api-keys`,
    201,
    json(token, { name: 'files', applicationId, scopes }),
  )
  const s3 = new S3Client({
    endpoint: `${baseUrl}/s3`,
    region: 'local',
    forcePathStyle: true,
    credentials: { accessKeyId: key.id, secretAccessKey: key.secret },
  })

  say('11. The AWS SDK stores a file, lists it and reads it back')
  const hello = { Bucket: 'media', Key: 'notes/hello.txt' }
  await s3.send(new PutObjectCommand({ ...hello, Body: 'Hello, storage', ContentType: 'text/plain' }))
  const listed = await s3.send(new ListObjectsV2Command({ Bucket: 'media', Delimiter: '/' }))
  deepStrictEqual(listed.CommonPrefixes, [{ Prefix: 'notes/' }])
  const { Body } = await s3.send(new GetObjectCommand(hello))
  deepStrictEqual(await Body?.transformToString(), 'Hello, storage')
  s3.destroy()

  say('12. A resumable upload: the first half, where it stopped, the rest')
  const content = Buffer.alloc(1_000_000, 'resumable ')
  interface Begun {
    session: { id: string }
    upload: { url: string; headers: Record<string, string> }
  }
  const { session, upload } = await ask<Begun>(
    `${environment}/buckets/media/uploads`,
    201,
    json(token, {
      key: 'large.bin',
      contentLength: content.length,
      checksumSha256: createHash('sha256').update(content).digest('hex'),
    }),
  )
  const append = (offset: number, body: Buffer) =>
    ask(upload.url, 204, {
      method: 'PATCH',
      headers: { ...upload.headers, 'Upload-Offset': String(offset) },
      body: new Uint8Array(body),
    })
  await append(0, content.subarray(0, 400_000))
  const head = await fetch(upload.url, { method: 'HEAD', headers: { 'tus-resumable': '1.0.0' } })
  deepStrictEqual(head.headers.get('upload-offset'), '400000')
  await append(400_000, content.subarray(400_000))
  const done = await ask<{ state: string }>(`${environment}/buckets/media/uploads/${session.id}`, 200, {
    headers: bearer,
  })
  deepStrictEqual(done.state, 'completed')

  say('13. Into the trash and back')
  interface Listed {
    items: { id: string; key: string }[]
    total: number
  }
  const objects = () => ask<Listed>(`${environment}/buckets/media/objects`, 200, { headers: bearer })
  const before = await objects()
  deepStrictEqual(
    before.items.map(({ key: name }) => name),
    ['large.bin', 'notes/hello.txt'],
  )
  const object = before.items[1]?.id ?? ''
  await ask(`${environment}/objects/${object}`, 204, { method: 'DELETE', headers: bearer })
  deepStrictEqual((await objects()).total, 1)
  await ask(`${environment}/trash/${object}/restore`, 200, { method: 'POST', headers: bearer })
  deepStrictEqual((await objects()).total, 2)

  say('14. A signed URL lets a browser read the private file, from an origin of its own')
  const access = await ask<{ url: string }>(`${environment}/objects/${object}/access-url`, 200, { headers: bearer })
  deepStrictEqual((await open(access.url)).toString(), 'Hello, storage')
}
