import { deepStrictEqual } from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { GetObjectCommand, ListObjectsV2Command, PutObjectCommand, S3Client } from '@aws-sdk/client-s3'
import { bearer, form, json, openAsk } from '../client/ask.ts'
import { deployFolder } from '../client/deploy-folder.ts'
import { beginDeviceSignIn, type Tokens } from '../client/sign-in.ts'

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
  'network:deployments:trigger',
  'network:deployments:read',
  'network:env_vars:read',
  'network:env_vars:write',
  'network:storage:read',
  'network:storage:write',
  'network:storage:delete',
  'network:ai_gateway:chat',
]

function say(step: string, ...details: string[]): void {
  process.stdout.write(`\n${step}\n${details.map((line) => `    ${line}\n`).join('')}`)
}

/** For polling. */
const askQuietly = openAsk()
const ask = openAsk((line) => process.stdout.write(`    ${line}\n`))

/** Device authorization as a command-line tool does it, with a person at a browser. */
async function signIn({ idpUrl, cliClientId, demo }: Where): Promise<string> {
  say('1. The command-line client reads where things are and asks for a device code')
  const { device, poll, approve } = await beginDeviceSignIn(ask, idpUrl, cliClientId, scopes)
  const pending = await poll<{ error: string }>(400)
  deepStrictEqual(pending.error, 'authorization_pending')

  say(`2. The person opens ${device.verification_uri}, signs in as ${demo.email} and approves ${device.user_code}`)
  await approve(demo)

  say('3. The client polls again and has its tokens')
  await sleep(device.interval * 1_000)
  const tokens = await poll<Tokens>(200)
  deepStrictEqual([tokens.expires_in, typeof tokens.refresh_token, typeof tokens.id_token], [300, 'string', 'string'])
  return tokens.access_token
}

/** The platform's main job, as an outsider would do it. Throws at the first answer that differs from the documentation. */
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
  const asMachine = bearer(machine.access_token)
  const pulled = await ask(
    `${baseUrl}/applications/${application.id}/env-vars/pull?environment=production`,
    200,
    asMachine,
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
  await ask(`${baseUrl}/organizations/${organization.id}`, 403, asMachine)
  await ask(`${baseUrl}/api-keys?applicationId=${application.id}`, 403, asMachine)

  say('9. The key is revoked: the next exchange fails at once')
  await ask(`${baseUrl}/api-keys/${key.id}`, 204, bearer(token, 'DELETE'))
  const refused = await ask<{ error: string }>(`${baseUrl}/oauth2/token`, 401, exchange)
  deepStrictEqual(refused.error, 'invalid_token')

  await store(where, token, application.id)
  const hostname = await deploy(where, token, application)
  await run(where, token, application.id, hostname)
  await build(where, token, application.id)
  await chat(where, token, organization.id)

  say('All answers were right.')
}

/** GETs a URL whose host may not resolve here: names below localhost do in browsers and in curl, but not everywhere. */
async function open(url: string, status = 200): Promise<Buffer> {
  const { host, hostname, port, pathname, search } = new URL(url)
  const target = hostname.endsWith('.localhost') ? 'localhost' : hostname
  const sent = request({ host: target, port, path: `${pathname}${search}`, headers: { host } }).end()
  const [answer] = (await once(sent, 'response')) as [IncomingMessage]
  process.stdout.write(`    GET ${host}${pathname} → ${answer.statusCode}\n`)
  if (answer.statusCode !== status) throw new Error(`Expected ${status} from ${url}, got ${answer.statusCode}`)
  return buffer(answer)
}

/** Files: by an S3 client, by a resumable upload, through the trash and back, and downloaded by URL. */
async function store({ baseUrl }: Where, token: string, applicationId: string): Promise<void> {
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
  const done = await ask<{ state: string }>(`${environment}/buckets/media/uploads/${session.id}`, 200, bearer(token))
  deepStrictEqual(done.state, 'completed')

  say('13. Into the trash and back')
  interface Listed {
    items: { id: string; key: string }[]
    total: number
  }
  const objects = () => ask<Listed>(`${environment}/buckets/media/objects`, 200, bearer(token))
  const before = await objects()
  deepStrictEqual(
    before.items.map(({ key: name }) => name),
    ['large.bin', 'notes/hello.txt'],
  )
  const object = before.items[1]?.id ?? ''
  await ask(`${environment}/objects/${object}`, 204, bearer(token, 'DELETE'))
  deepStrictEqual((await objects()).total, 1)
  await ask(`${environment}/trash/${object}/restore`, 200, bearer(token, 'POST'))
  deepStrictEqual((await objects()).total, 2)

  say('14. A signed URL lets a browser read the private file, from an origin of its own')
  const access = await ask<{ url: string }>(`${environment}/objects/${object}/access-url`, 200, bearer(token))
  deepStrictEqual((await open(access.url)).toString(), 'Hello, storage')
}

/**
 * A site: deployed, changed and deployed again, rolled back; an already loaded page still finds its script throughout.
 * Returns its hostname.
 */
async function deploy({ baseUrl }: Where, token: string, application: { id: string; slug: string }): Promise<string> {
  const api = { baseUrl, token }
  const site = (version: 1 | 2) => resolve(import.meta.dirname, `../sites/demo-${version}`)
  const script = { 1: '/assets/app.4f0a9c31.js', 2: '/assets/app.b7d2e650.js' }

  say('15. A hostname for the application, and its first deployment')
  const label = `shop-${application.id.slice(-8)}x`
  const { hostname } = await ask<{ hostname: string }>(
    `${baseUrl}/applications/${application.id}/hostname`,
    200,
    json(token, { label }, 'PUT'),
  )
  const url = `http://${hostname}`
  await open(`${url}/`, 404)
  const first = await deployFolder(ask, api, application.id, site(1))
  // Edges learn of a change after it is answered; within a second all of them have.
  const shows = async (origin: string, version: 1 | 2) => {
    let page = ''
    for (const deadline = Date.now() + 1_000; !page.includes(`Version ${version}`) && Date.now() < deadline;)
      page = (await open(`${origin}/`)).toString()
    deepStrictEqual([page.includes(`Version ${version}`), page.includes(script[version])], [true, true])
  }
  await shows(url, 1)

  say('16. The site changes and is deployed again; a page that was open before still finds its script')
  const second = await deployFolder(ask, api, application.id, site(2))
  await shows(url, 2)
  await open(`${url}${script[1]}`)
  await open(`${url}/assets/app.00000000.js`, 404)
  await shows(first.url, 1)

  say('17. Rolled back, without a build')
  const back = await ask<{ isCurrent: boolean }>(
    `${baseUrl}/deployments/${first.id}/promote`,
    200,
    bearer(token, 'POST'),
  )
  deepStrictEqual(back.isCurrent, true)
  await shows(url, 1)
  await open(`${url}${script[2]}`)

  say('18. What was said while it was deployed')
  interface Log {
    items: { createdAt: string; type: string; message: string }[]
  }
  const { items } = await ask<Log>(`${baseUrl}/deployments/${second.id}/logs`, 200, bearer(token))
  for (const { createdAt, type, message } of items) process.stdout.write(`    ${createdAt} ${type} ${message}\n`)
  deepStrictEqual(items.length > 0, true)
  return hostname
}

/** A Function: it reads the storage of its own environment without configuration, and its output can be read. */
async function run({ baseUrl }: Where, token: string, applicationId: string, hostname: string): Promise<void> {
  say('19. A Function takes the place of the site, and answers with a file of the bucket; nothing was configured')
  const folder = resolve(import.meta.dirname, '../sites/demo-function')
  const { id } = await deployFolder(ask, { baseUrl, token }, applicationId, folder)
  const deployment = `${baseUrl}/deployments/${id}`
  const url = `http://${hostname}/notes/hello.txt`
  let answer = ''
  // As above: edges learn of a change after it is answered.
  for (const deadline = Date.now() + 1_000; answer === '' && Date.now() < deadline;)
    answer = await open(url).then(String, () => '')
  deepStrictEqual(answer, 'Hello, storage')
  await open(`http://${hostname}/notes/none.txt`, 404)

  say('20. What it printed, by request')
  interface Lines {
    items: { requestId: string | null; level: string; message: string }[]
  }
  const log = `${deployment}/runtime-logs`
  const { requestId } = await until(async () => {
    const { items } = await askQuietly<Lines>(`${log}?search=none.txt`, 200, bearer(token))
    return items.find((each) => each.requestId !== null)
  })
  const { items: ofRequest } = await ask<Lines>(`${log}?requestId=${requestId}`, 200, bearer(token))
  for (const { requestId, level, message } of ofRequest) process.stdout.write(`    ${requestId} ${level} ${message}\n`)
  deepStrictEqual(
    ofRequest.map(({ message }) => message),
    ['media/notes/none.txt was answered with 404'],
  )

  say('21. The Functions of the deployment, and what they take')
  interface Functions {
    items: { path: string; slots: number; memoryBytes: number; coldStarts: number; requests: number }[]
  }
  // An edge reports every five seconds.
  const counted = async () =>
    (await askQuietly<Functions>(`${deployment}/functions`, 200, bearer(token))).items.find(
      (each) => each.requests === 2,
    )
  const { path, slots, memoryBytes, coldStarts, requests } = await until(counted)
  const megabytes = Math.round(memoryBytes / 1e6)
  process.stdout.write(
    `    ${path}: slots ${slots}, ${megabytes} MB, cold starts ${coldStarts}, requests ${requests}\n`,
  )
  // On a busy machine a second slot may have started.
  deepStrictEqual([path, slots > 0, coldStarts > 0], ['_worker.js', true, true])
}

/** Source: the platform builds it, if the machine can sandbox builds. */
async function build({ baseUrl }: Where, token: string, applicationId: string): Promise<void> {
  say('22. A project is deployed as source, and the platform builds it')
  const folder = resolve(import.meta.dirname, '../sites/demo-source')
  try {
    const { url } = await deployFolder(ask, { baseUrl, token }, applicationId, folder)
    deepStrictEqual((await open(`${url}/`)).toString().includes('Built with Node 24.'), true)
  } catch (error) {
    const reason = error instanceof Error ? error.message : ''
    if (!reason.includes('builds cannot run here')) throw error
    process.stdout.write(`    ${reason}\n`)
  }
}

/** A model: its words are printed as they arrive. */
async function chat({ baseUrl }: Where, token: string, organizationId: string): Promise<void> {
  say('23. A model answers word by word; this one runs in the platform itself and repeats what it is told')
  const messages = [{ role: 'user', content: 'The words of an answer come one by one.' }]
  const sent = new Request(
    `${baseUrl}/ai/v1/chat/completions`,
    json(token, { model: 'local/echo', stream: true, messages }),
  )
  sent.headers.set('x-organization-id', organizationId)
  const answer = await fetch(sent)
  process.stdout.write(`    POST /ai/v1/chat/completions → ${answer.status}\n    `)
  if (!answer.ok || !answer.body) throw new Error(`Expected a stream, got ${await answer.text()}`)
  let said = ''
  let isDone = false
  for await (const line of createInterface(Readable.fromWeb(answer.body))) {
    if (line === 'data: [DONE]') isDone = true
    else if (line.startsWith('data: ')) {
      const { choices } = JSON.parse(line.slice('data: '.length)) as { choices: { delta: { content?: string } }[] }
      const word = choices[0]?.delta.content ?? ''
      process.stdout.write(word)
      said += word
    }
  }
  process.stdout.write('\n')
  deepStrictEqual([said.endsWith('it repeats: The words of an answer come one by one.'), isDone], [true, true])
}

/** Polls every half second until there is a result. Throws after 20 s. */
async function until<T>(find: () => Promise<T | undefined>): Promise<T> {
  for (const deadline = Date.now() + 20_000; Date.now() < deadline; await sleep(500)) {
    const value = await find()
    if (value !== undefined) return value
  }
  throw new Error('It was not there within 20 s')
}
