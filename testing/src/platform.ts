import { randomBytes, randomUUID } from 'node:crypto'
import { chmod, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { scopeCatalogue } from '@platform/auth/scopes'
import { createLogger } from '@platform/runtime/logger'
import { Browser } from '@platform/testkit/browser'
import { testRedisUrl } from '@platform/testkit/databases'
import { freePort } from '@platform/testkit/free-port'
import { newObjectsUrl } from '@platform/testkit/objects'
import request from 'supertest'
// The services are named by path: their own tests use this package, so by name the workspace would have a cycle.
import { prepareDatabase as prepareApiDatabase } from '../../services/api/src/compose.ts'
import { loadConfig as loadApiConfig } from '../../services/api/src/config.ts'
import { compose as composeIdp, prepareDatabase as prepareIdpDatabase } from '../../services/idp/src/compose.ts'
import { loadConfig as loadIdpConfig } from '../../services/idp/src/config.ts'
import { createUser } from '../../services/idp/src/features/accounts/accounts.ts'
import { createClient } from '../../services/idp/src/features/clients/clients.ts'
import { startIdp } from '../../services/idp/src/roles/idp.ts'
import { type ApiDeps, type ApiOverrides, composeApi, startApi, startConsole, startEdge, startWorker } from './api.ts'
import { createCheapHashing } from './cheap-hashing.ts'
import { signIn } from './oauth-flow.ts'
import { createServiceDatabase } from './service-databases.ts'

/** A clock that goes on by itself and can be moved. */
interface TestClock {
  now: () => Date
  advance: (ms: number) => void
  /** From now on each reading moves it on by so much, so that two readings never agree. */
  stepAtEachReading: (ms: number) => void
}

function startClock(): TestClock {
  let offset = 0
  let step = 0
  return {
    now: () => new Date(Date.now() + (offset += step)),
    advance: (ms) => void (offset += ms),
    stepAtEachReading: (ms) => void (step = ms),
  }
}

/** An answer, as tests look at it. */
interface Answer {
  status: number
  headers: Record<string, string>
  // oxlint-disable-next-line typescript/no-explicit-any -- tests look into answers of every shape
  body: any
  text: string
}

type GuardedFetch = NonNullable<ApiOverrides['guardedFetch']>
type TransformerOptions = NonNullable<ApiOverrides['imageTransformer']>
type AiTimings = NonNullable<ApiOverrides['aiTimings']>
type IdpDeps = Awaited<ReturnType<typeof composeIdp>>['deps']

/** Somebody with an account, who signs in through the real pages. */
export interface Person {
  userId: string
  email: string
  password: string
  /** A fresh access token of exactly these scopes; of the console's client with `console`. */
  token: (scopes: readonly string[], options?: { console?: boolean; signInAgain?: boolean }) => Promise<string>
  /** A fresh ID token of the test client. */
  idToken: () => Promise<string>
}

/** An edge beside the platform's own. Hostnames are the same, on its port. */
export interface TestEdge {
  edgeUrl: string
  api: ApiDeps
  /** What an edge does first that is about to stop. */
  drain: () => void
  stop: (drainMs?: number) => Promise<void>
}

export interface TestPlatform {
  apiUrl: string
  idpUrl: string
  edgeUrl: string
  /** S3 at its root. */
  s3Url: string
  /** Where the console is served, if it is. */
  consoleUrl: string
  /** The API's database, for connections of a test's own. */
  databaseUrl: string
  clock: TestClock
  /** Where the file of AI providers is, for tests that change it. */
  aiProvidersPath: string
  /** For what no endpoint does: changing a role, a plan, or time-travelling rows. */
  api: ApiDeps
  idp: IdpDeps
  publicClientId: string
  person: () => Promise<Person>
  /** The letters that an address got from either service, oldest first; what is on its way arrives first. Needs `hasMail`. */
  letters: (email: string) => Promise<string[]>
  /** Starts another edge on the same database, with slots of its own. It ends with the platform, where it has not been stopped. */
  addEdge: (env?: Record<string, string>) => Promise<TestEdge>
  /** `'POST /path'`; a body that is not undefined is sent as JSON. */
  call: (token: string | null, on: string, body?: unknown, headers?: Record<string, string>) => Promise<Answer>
  close: () => Promise<void>
}

const REDIRECT_URI = 'http://localhost:3000/callback'
export const everyScope: readonly string[] = scopeCatalogue

/** Sandboxed commands run as users of their own, who have to get through. */
async function newFunctionsFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'fn-'))
  await chmod(folder, 0o711)
  return folder
}

/**
 * Starts the two real services on free ports, each on a database of its own, with one clock. Limits are counted in Redis
 * where the run has one. `databases` and `redisUrl` take the place of these.
 */
export async function startPlatform(
  options: {
    corsOrigins?: string[]
    databases?: { api: string; idp: string }
    redisUrl?: string
    objectsUrl?: string
    /** How often streams of the API beat, where a test cannot wait for it. */
    heartbeatMs?: number
    s3Domain?: string
    /** Whether the worker runs: what waits for it is done. Its jobs run once, at the start. */
    hasWorker?: boolean
    /** How the edge asks other origins. */
    guardedFetch?: GuardedFetch
    /** How long images may take, where a test cannot wait for it. */
    imageTransformer?: TransformerOptions
    /** How long things may take at the AI gateway, where a test cannot wait for it. */
    aiTimings?: AiTimings
    /** A folder that the console is served from. */
    consoleFolder?: string
    /** What the operator's file of AI providers and models holds. */
    aiProviders?: object
    /** Called with each line that the API logs, whatever its level; else nothing is logged. */
    onLogLine?: (line: string) => void
    /** Further variables of the API. */
    env?: Record<string, string>
    /** Whether the services send mail, into one folder: `letters` reads it. The API's invitations are taken in any case. */
    hasMail?: boolean
    /** Further variables of the identity provider. */
    idpEnv?: Record<string, string>
  } = {},
): Promise<TestPlatform> {
  const clock = startClock()
  const [apiDatabase, idpDatabase, apiPort, idpPort, edgePort, consolePort, objects] = await Promise.all([
    options.databases?.api ?? createServiceDatabase('api').then(({ url }) => url),
    options.databases?.idp ?? createServiceDatabase('idp').then(({ url }) => url),
    freePort(),
    freePort(),
    freePort(),
    freePort(),
    options.objectsUrl === undefined ? newObjectsUrl() : { url: options.objectsUrl, remove: async () => {} },
  ])
  const functionsFolder = await newFunctionsFolder()
  const mailFolder = options.hasMail === true ? await mkdtemp(join(tmpdir(), 'platform-test-mail-')) : undefined
  const apiUrl = `http://localhost:${apiPort}`
  const idpUrl = `http://localhost:${idpPort}`
  const consoleUrl = `http://localhost:${consolePort}`
  const { consoleFolder } = options
  const consoleClientId = randomUUID()
  const docsClientId = randomUUID()
  // Suites that run at the same time share one Redis; an address of one's own keeps their counts apart.
  const headers = { 'x-forwarded-for': `100.${[...randomBytes(3)].join('.')}` }
  const shared = {
    HOST: 'localhost',
    HEALTH_PORT: '0',
    MASTER_KEYS: `test:${randomBytes(32).toString('base64')}`,
    REDIS_URL: options.redisUrl ?? testRedisUrl(),
    TRUSTED_PROXIES: '127.0.0.1,::1',
    MAIL_URL: mailFolder && pathToFileURL(mailFolder).href,
  }

  const idpConfig = loadIdpConfig({
    ...shared,
    PUBLIC_URL: idpUrl,
    PORT: String(idpPort),
    DATABASE_URL: idpDatabase,
    AUDIENCES: apiUrl,
    INVITATION_ISSUERS: apiUrl,
    ...options.idpEnv,
  })
  await prepareIdpDatabase(idpConfig)
  const idp = await composeIdp(idpConfig, {
    now: clock.now,
    logger: createLogger('idp', 'silent'),
    hashing: createCheapHashing(),
  })
  const idpServer = await startIdp(idp.deps, { host: 'localhost', port: idpPort })

  const aiProvidersPath = join(functionsFolder, 'ai-providers.json')
  if (options.aiProviders) await writeFile(aiProvidersPath, JSON.stringify(options.aiProviders))
  const apiEnvironment = {
    ...shared,
    PUBLIC_URL: apiUrl,
    PORT: String(apiPort),
    DATABASE_URL: apiDatabase,
    IDP_URL: idpUrl,
    OBJECTS_URL: objects.url,
    EDGE_PORT: String(edgePort),
    S3_PORT: '0',
    S3_DOMAIN: options.s3Domain,
    CONSOLE_CLIENT_IDS: consoleClientId,
    CONSOLE_URL: consoleFolder && consoleUrl,
    DOCS_CLIENT_ID: docsClientId,
    CORS_ORIGINS: options.corsOrigins?.join(','),
    FUNCTION_SANDBOX: 'auto',
    FUNCTION_EGRESS: 'host',
    FUNCTIONS_FOLDER: functionsFolder,
    AI_PROVIDERS: options.aiProviders && aiProvidersPath,
    ...options.env,
  }
  const apiConfig = loadApiConfig(apiEnvironment)
  await prepareApiDatabase(apiConfig)
  const { onLogLine } = options
  const api = await composeApi(apiConfig, {
    now: clock.now,
    logger: onLogLine ? createLogger('api', 'trace', { write: onLogLine }) : createLogger('api', 'silent'),
    ...(options.heartbeatMs !== undefined && { heartbeatMs: options.heartbeatMs }),
    ...(options.guardedFetch && { guardedFetch: options.guardedFetch }),
    ...(options.imageTransformer && { imageTransformer: options.imageTransformer }),
    ...(options.aiTimings && { aiTimings: options.aiTimings }),
  })
  const edgeServer = await startEdge(api.deps, { host: 'localhost', port: edgePort })
  const edgesAdded: TestEdge[] = []
  async function addEdge(env: Record<string, string> = {}): Promise<TestEdge> {
    const folder = await newFunctionsFolder()
    const config = loadApiConfig({
      ...apiEnvironment,
      APPS_URL: api.deps.appsUrl.origin,
      FUNCTIONS_FOLDER: folder,
      ...env,
    })
    const { deps, close } = await composeApi(config, { now: clock.now, logger: createLogger('api', 'silent') })
    const server = await startEdge(deps, { host: 'localhost', port: 0 })
    let stopped: Promise<void> | undefined
    async function stop(drainMs: number): Promise<void> {
      await server.stop(drainMs)
      await close()
      await rm(folder, { recursive: true, force: true })
    }
    const edge: TestEdge = {
      edgeUrl: `http://localhost:${server.port}`,
      api: deps,
      drain: () => server.drain(),
      stop: (drainMs = 0) => (stopped ??= stop(drainMs)),
    }
    edgesAdded.push(edge)
    return edge
  }

  const worker = options.hasWorker === true ? startWorker(api.deps, 3_600_000) : undefined
  const apiServer = await startApi(api.deps, { host: 'localhost', port: apiPort, s3Port: 0 })
  const consoleServer =
    consoleFolder === undefined
      ? undefined
      : await startConsole(
          api.deps,
          { host: 'localhost', port: consolePort },
          { folder: consoleFolder, clientId: consoleClientId },
        )

  const grants = ['authorization_code', 'refresh_token']
  const client = { kind: 'public', redirectUris: [REDIRECT_URI], scopes: '*', isFirstParty: true } as const
  const { client: publicClient } = await createClient(idp.deps, {
    ...client,
    name: 'Test client',
    grants: [...grants, 'urn:ietf:params:oauth:grant-type:device_code'],
  })
  await createClient(idp.deps, {
    ...client,
    id: consoleClientId,
    name: 'Console',
    redirectUris: [REDIRECT_URI, `${consoleUrl}/callback`],
    postLogoutRedirectUris: [`${consoleUrl}/`],
    grants,
  })
  await createClient(idp.deps, {
    ...client,
    id: docsClientId,
    name: 'API reference',
    redirectUris: [`${apiUrl}/docs`],
    grants,
  })

  async function person(): Promise<Person> {
    const email = `${randomBytes(6).toString('hex')}@example.com`
    const password = randomBytes(12).toString('base64url')
    const { id: userId } = await createUser(idp.deps, {
      email,
      password,
      givenName: 'Ana',
      familyName: 'Test',
      emailVerified: true,
    })
    let browser = new Browser(headers)
    const tokensFor = (clientId: string, scopes: readonly string[]) =>
      signIn(browser, { idpUrl, clientId, redirectUri: REDIRECT_URI, scopes }, { email, password })
    return {
      userId,
      email,
      password,
      async token(scopes, { console: ofConsole = false, signInAgain = false } = {}) {
        if (signInAgain) browser = new Browser(headers)
        return (await tokensFor(ofConsole ? consoleClientId : publicClient.id, scopes)).access_token
      },
      async idToken() {
        const { id_token: idToken } = await tokensFor(publicClient.id, ['openid'])
        if (idToken === undefined) throw new Error('The token endpoint answered no ID token')
        return idToken
      },
    }
  }

  async function call(
    token: string | null,
    on: string,
    body?: unknown,
    more: Record<string, string> = {},
  ): Promise<Answer> {
    const [method = 'GET', path = '/'] = on.split(' ')
    const agent = request(apiUrl)
    let sent = agent[method.toLowerCase() as 'get'](path).redirects(0)
    sent = sent.ok(() => true)
    if (token !== null) sent = sent.set('authorization', `Bearer ${token}`)
    sent = sent.set({ ...headers, ...more })
    const answer = await (body === undefined ? sent : sent.send(body as object))
    return { status: answer.status, headers: answer.headers, body: answer.body as unknown, text: answer.text }
  }

  async function letters(email: string): Promise<string[]> {
    if (mailFolder === undefined) throw new Error('This platform was started without hasMail')
    await Promise.all([api.deps.afterAnswer.settled(), idp.deps.afterAnswer.settled()])
    const names = (await readdir(mailFolder)).toSorted()
    const all = await Promise.all(names.map((name) => readFile(join(mailFolder, name), 'utf8')))
    return all.filter((letter) => letter.includes(`\r\nTo: ${email}\r\n`))
  }

  return {
    apiUrl,
    idpUrl,
    edgeUrl: `http://localhost:${edgePort}`,
    s3Url: `http://localhost:${apiServer.s3Port}`,
    consoleUrl,
    databaseUrl: apiDatabase,
    clock,
    aiProvidersPath,
    api: api.deps,
    idp: idp.deps,
    publicClientId: publicClient.id,
    person,
    call,
    letters,
    addEdge,
    async close() {
      await worker?.stop()
      for (const edge of edgesAdded) await edge.stop()
      await consoleServer?.stop(0)
      await apiServer.stop(0)
      await edgeServer.stop(0)
      await idpServer.stop(0)
      await api.close()
      await idp.close()
      await rm(functionsFolder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 })
      if (mailFolder !== undefined) await rm(mailFolder, { recursive: true, force: true })
      await objects.remove()
    },
  }
}
