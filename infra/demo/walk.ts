import { deepStrictEqual } from 'node:assert/strict'
import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { resolve } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { GetObjectCommand, ListObjectsV2Command, PutObjectCommand, S3Client } from '@aws-sdk/client-s3'
import {
  apiKey,
  createApiKey,
  createApplication,
  createApplicationVariable,
  createBucket,
  createChatCompletion,
  createOrganization,
  createOrganizationVariable,
  deleteApiKey,
  type Deployment,
  type Fetch,
  getObjectAccessUrl,
  getOrganization,
  listApiKeys,
  listBuildLogs,
  listDeploymentFunctions,
  listObjects,
  listRuntimeLogs,
  memoryStore,
  Platform,
  PlatformError,
  promoteDeployment,
  pullVariables,
  restoreObject,
  s3Config,
  setHostname,
  stream,
  trashObject,
  userToken,
} from '@platform/sdk'
import { folder } from '@platform/sdk/node'
import { signInByDevice, signOut } from '@platform/sdk/sign-in'
import { DeploymentFailed, deployFolder, type ResumableUpload, uploadObject } from '@platform/sdk/uploads'
import { approveDevice } from '@platform/testkit/approve-device'

interface Where {
  baseUrl: string
  cliClientId: string
  demo: { email: string; password: string }
}

/** The person, and an application of theirs. */
interface Walk {
  user: Platform
  /** The same, for polling: it prints nothing. */
  quiet: Platform
  application: { id: string }
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

/** Prints each request that was answered, in a line that holds no secret. */
const reporting: Fetch = async (url, init) => {
  const answer = await fetch(url, init)
  // The URLs of uploads carry their own authority.
  const path = new URL(url).pathname.replace(/^(\/files\/[^./]+)\..*/, '$1.…')
  process.stdout.write(`    ${init.method ?? 'GET'} ${path} → ${answer.status}\n`)
  return answer
}

/** Demands a refusal with this status. */
async function refused(call: Promise<unknown>, status: number): Promise<PlatformError> {
  const error: unknown = await call.then(
    () => new Error('It was not refused'),
    (thrown: unknown) => thrown,
  )
  if (!(error instanceof PlatformError) || error.status !== status) throw error
  return error
}

/** The platform's main job, as an outsider would do it. Throws at the first answer that differs from the documentation. */
export async function walk({ baseUrl, cliClientId, demo }: Where): Promise<void> {
  say('1. The command-line client reads where things are and asks for a device code')
  const store = memoryStore()
  await signInByDevice({
    baseUrl,
    clientId: cliClientId,
    scopes,
    store,
    fetch: reporting,
    async onCode(code) {
      say(`2. The person opens ${code.url}, signs in as ${demo.email} and approves ${code.userCode}`)
      await approveDevice(code, demo)
      say('3. The client polls and has its tokens, which it renews by itself')
    },
  })
  const credential = userToken({ store })
  const user = new Platform({ baseUrl, credential, fetch: reporting })
  const quiet = new Platform({ baseUrl, credential })

  say('4. An organization and an application in it')
  const stamp = new Date()
    .toISOString()
    .replaceAll(/[^0-9]/g, '')
    .slice(0, 14)
  const organization = await createOrganization(user, { body: { name: `Demo ${stamp}` } })
  const organizationId = organization.id
  const application = await createApplication(user, { body: { organizationId, name: 'Shop' } })
  const { id } = application

  say('5. Variables on all three layers, one of them sensitive')
  await createOrganizationVariable(user, { id: organizationId, body: { key: 'REGION', value: 'eu' } })
  await createOrganizationVariable(user, { id: organizationId, body: { key: 'LOG_LEVEL', value: 'warn' } })
  await createApplicationVariable(user, { id, body: { key: 'LOG_LEVEL', value: 'info' } })
  await createApplicationVariable(user, { id, body: { key: 'LOG_LEVEL', value: 'debug', environment: 'production' } })
  const body = { key: 'DB_PASSWORD', value: 'correct horse', sensitive: true }
  const sensitive = await createApplicationVariable(user, { id, body })
  deepStrictEqual(sensitive.value, null)

  say('6. An API key, exchanged for a token that acts as the application')
  const key = await createApiKey(user, { body: { name: 'demo', applicationId: id } })
  deepStrictEqual(key.scopes, ['network:env_vars:read'])
  const machine = new Platform({ baseUrl, credential: apiKey(key), fetch: reporting })

  say('7. The key pulls the merged variables; the sensitive one is counted and left out')
  const pulled = await pullVariables(machine, { id, environment: 'production' })
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
  await refused(getOrganization(machine, { id: organizationId }), 403)
  await refused(listApiKeys(machine, { applicationId: id }), 403)

  say('9. The key is revoked: the next exchange fails at once')
  await deleteApiKey(user, { apiKeyId: key.id })
  const revoked = new Platform({ baseUrl, credential: apiKey(key), fetch: reporting })
  const { code } = await refused(pullVariables(revoked, { id }), 401)
  deepStrictEqual(code, 'invalid_token')

  const walked = { user, quiet, application }
  await storeFiles(walked)
  const hostname = await deploySite(walked)
  await runFunction(walked, hostname)
  await buildSource(walked)
  await chat(walked, organizationId)
  await signOut({ store })

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
async function storeFiles({ user, application }: Walk): Promise<void> {
  const place = { applicationId: application.id, environment: 'production' }

  say('10. A bucket, and an API key that an S3 client can sign with')
  await createBucket(user, { ...place, body: { name: 'media' } })
  const scopes = ['network:storage:read', 'network:storage:write', 'network:storage:delete']
  const key = await createApiKey(user, { body: { name: 'files', applicationId: application.id, scopes } })
  const s3 = new S3Client(s3Config({ baseUrl: user.baseUrl, ...key }))

  say('11. The AWS SDK stores a file, lists it and reads it back')
  const hello = { Bucket: 'media', Key: 'notes/hello.txt' }
  await s3.send(new PutObjectCommand({ ...hello, Body: 'Hello, storage', ContentType: 'text/plain' }))
  const listed = await s3.send(new ListObjectsV2Command({ Bucket: 'media', Delimiter: '/' }))
  deepStrictEqual(listed.CommonPrefixes, [{ Prefix: 'notes/' }])
  const { Body } = await s3.send(new GetObjectCommand(hello))
  deepStrictEqual(await Body?.transformToString(), 'Hello, storage')
  s3.destroy()

  say('12. A resumable upload: interrupted after its first piece, then gone on with where it stopped')
  const upload = { ...place, bucket: 'media', key: 'large.bin', data: Buffer.alloc(9_000_000, 'resumable ') }
  const interrupted = new AbortController()
  let resume: ResumableUpload | undefined
  await uploadObject(user, {
    ...upload,
    signal: interrupted.signal,
    onBegun: (begun) => (resume = begun),
    onProgress: () => interrupted.abort(),
  }).catch(() => {})
  const { contentLength } = await uploadObject(user, { ...upload, ...(resume && { resume }) })
  deepStrictEqual([resume === undefined, contentLength], [false, 9_000_000])

  say('13. Into the trash and back')
  const objects = () => listObjects(user, { ...place, bucket: 'media' })
  const { items } = await objects()
  deepStrictEqual(
    items.map(({ key: name }) => name),
    ['large.bin', 'notes/hello.txt'],
  )
  const object = { ...place, objectId: items[1]?.id ?? '' }
  await trashObject(user, object)
  deepStrictEqual((await objects()).total, 1)
  await restoreObject(user, object)
  deepStrictEqual((await objects()).total, 2)

  say('14. A signed URL lets a browser read the private file, from an origin of its own')
  const access = await getObjectAccessUrl(user, object)
  deepStrictEqual((await open(access.url)).toString(), 'Hello, storage')
}

/** Deploys one of the folders beside this one. */
const deploy = ({ user, application }: Walk, name: string): Promise<Deployment> =>
  deployFolder(user, {
    applicationId: application.id,
    source: folder(resolve(import.meta.dirname, '../sites', name)),
  })

/**
 * A site: deployed, changed and deployed again, rolled back; an already loaded page still finds its script throughout.
 * Returns its hostname.
 */
async function deploySite(walked: Walk): Promise<string> {
  const { user, application } = walked
  const script = { 1: '/assets/app.4f0a9c31.js', 2: '/assets/app.b7d2e650.js' }

  say('15. A hostname for the application, and its first deployment')
  const label = `shop-${application.id.slice(-8)}x`
  const { hostname } = await setHostname(user, { id: application.id, body: { label } })
  const url = `http://${hostname}`
  await open(`${url}/`, 404)
  const first = await deploy(walked, 'demo-1')
  // Edges learn of a change after it is answered; within a second all of them have.
  const shows = async (origin: string, version: 1 | 2) => {
    let page = ''
    for (const deadline = Date.now() + 1_000; !page.includes(`Version ${version}`) && Date.now() < deadline;)
      page = (await open(`${origin}/`)).toString()
    deepStrictEqual([page.includes(`Version ${version}`), page.includes(script[version])], [true, true])
  }
  await shows(url, 1)

  say('16. The site changes and is deployed again; a page that was open before still finds its script')
  const second = await deploy(walked, 'demo-2')
  await shows(url, 2)
  await open(`${url}${script[1]}`)
  await open(`${url}/assets/app.00000000.js`, 404)
  await shows(first.url, 1)

  say('17. Rolled back, without a build')
  const { isCurrent } = await promoteDeployment(user, { id: first.id })
  deepStrictEqual(isCurrent, true)
  await shows(url, 1)
  await open(`${url}${script[2]}`)

  say('18. What was said while it was deployed')
  const { items } = await listBuildLogs(user, { id: second.id })
  for (const { createdAt, type, message } of items) process.stdout.write(`    ${createdAt} ${type} ${message}\n`)
  deepStrictEqual(items.length > 0, true)
  return hostname
}

/** A Function: it reads the storage of its own environment without configuration, and its output can be read. */
async function runFunction(walked: Walk, hostname: string): Promise<void> {
  const { user, quiet } = walked
  say('19. A Function takes the place of the site, and answers with a file of the bucket; nothing was configured')
  const { id } = await deploy(walked, 'demo-function')
  const url = `http://${hostname}/notes/hello.txt`
  let answer = ''
  // As above: edges learn of a change after it is answered.
  for (const deadline = Date.now() + 1_000; answer === '' && Date.now() < deadline;)
    answer = await open(url).then(String, () => '')
  deepStrictEqual(answer, 'Hello, storage')
  await open(`http://${hostname}/notes/none.txt`, 404)

  say('20. What it printed, by request')
  const { requestId } = await until(async () => {
    const { items } = await listRuntimeLogs(quiet, { id, search: 'none.txt' })
    return items.find((line) => line.requestId !== null)
  })
  const { items: lines } = await listRuntimeLogs(user, { id, requestId: requestId ?? '' })
  for (const line of lines) process.stdout.write(`    ${line.requestId} ${line.level} ${line.message}\n`)
  deepStrictEqual(
    lines.map(({ message }) => message),
    ['media/notes/none.txt was answered with 404'],
  )

  say('21. The Functions of the deployment, and what they take')
  // An edge reports every five seconds.
  const { path, slots, memoryBytes, coldStarts, requests } = await until(async () => {
    const { items } = await listDeploymentFunctions(quiet, { id })
    return items.find((each) => each.requests === 2)
  })
  const megabytes = Math.round(memoryBytes / 1e6)
  process.stdout.write(
    `    ${path}: slots ${slots}, ${megabytes} MB, cold starts ${coldStarts}, requests ${requests}\n`,
  )
  // On a busy machine a second slot may have started.
  deepStrictEqual([path, slots > 0, coldStarts > 0], ['_worker.js', true, true])
}

/** Source: the platform builds it, if the machine can sandbox builds. */
async function buildSource(walked: Walk): Promise<void> {
  say('22. A project is deployed as source, and the platform builds it')
  try {
    const { url } = await deploy(walked, 'demo-source')
    deepStrictEqual((await open(`${url}/`)).toString().includes('Built with Node 24.'), true)
  } catch (error) {
    if (!(error instanceof DeploymentFailed) || !error.message.includes('builds cannot run here')) throw error
    process.stdout.write(`    ${error.message}\n`)
  }
}

/** A model: its words are printed as they arrive. */
async function chat({ user }: Walk, organizationId: string): Promise<void> {
  say('23. A model answers word by word; this one runs in the platform itself and repeats what it is told')
  const messages = [{ role: 'user' as const, content: 'The words of an answer come one by one.' }]
  const chunks = stream(createChatCompletion, user, { organizationId, body: { model: 'local/echo', messages } })
  let said = ''
  process.stdout.write('    ')
  for await (const { choices } of chunks) {
    const word = choices[0]?.delta.content ?? ''
    process.stdout.write(word)
    said += word
  }
  process.stdout.write('\n')
  deepStrictEqual(said.endsWith('it repeats: The words of an answer come one by one.'), true)
}

/** Polls every half second until there is a result. Throws after 20 s. */
async function until<T>(find: () => Promise<T | undefined>): Promise<T> {
  for (const deadline = Date.now() + 20_000; Date.now() < deadline; await sleep(500)) {
    const value = await find()
    if (value !== undefined) return value
  }
  throw new Error('It was not there within 20 s')
}
