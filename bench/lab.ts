import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { startPostgres } from '@platform/embedded-postgres/start-postgres'
import { freePort } from '@platform/testkit/free-port'
import { Redis } from 'ioredis'
import postgres from 'postgres'
import type { Config } from './config.ts'
import type { Core } from './cores.ts'
import { type IdentityProvider, startIdentityProvider } from './identity-provider.ts'
import { cpuOfBackends } from './process-costs.ts'
import { startServer } from './server-process.ts'

const run = promisify(execFile)
const repository = resolve(import.meta.dirname, '..')
const scopes = [
  'platform:organizations:write',
  'platform:api_keys:write',
  'network:applications:write',
  'network:deployments:read',
  'network:deployments:trigger',
  'network:env_vars:read',
  'network:storage:read',
  'network:storage:write',
  'network:storage:delete',
  'network:ai_gateway:chat',
  'network:ai_gateway:usage',
]
/** A service that takes the tokens of an identity provider that is measured by itself. */
const AUDIENCE = 'https://api.example.com'
/** Far below the 300 s that a token lives. */
const TOKEN_REUSED_MS = 120_000

/** Our platform, running: the API is the process that is measured. */
interface Platform {
  apiOrigin: string
  apiPid: number
  /** Where the same process serves hostnames. */
  edgeOrigin: string
  /** The same process keeps the files and sockets of Functions here. */
  functionsFolder: string
  /** Starts one more process of the API beside the first, on the same core, database and Redis. more: its own settings. */
  startAnotherApi(more?: Record<string, string>): Promise<{ origin: string; pid: number }>
  /** Runs a command of the operator's, such as `product grant`. Throws with its words if it fails. */
  command(args: readonly string[]): Promise<void>
  /** Starts one more edge beside the first, on the same core, database and Redis. stop: safe to repeat. */
  startAnotherEdge(): Promise<{ origin: string; pid: number; stop(): Promise<void> }>
  /** Starts a worker, which runs its jobs at once. */
  startWorker(): Promise<{ stop(): Promise<void> }>
  /** Issuer of user tokens. */
  issuer: string
  /** An access token of the person, got through the real pages; good for at least 3 minutes. */
  userToken(): Promise<string>
  /** Calls the API as the person. Throws unless it answers 2xx. */
  call<T>(method: 'GET' | 'POST', path: string, body?: object): Promise<T>
}

/** What suites share: databases, a running platform, and a place to start peers. */
export interface Lab {
  /** The API's database, which peers read as well. */
  databaseUrl: string
  redisUrl: string
  /** An S3 server that is measured as well; undefined where there is none. */
  s3Url: string | undefined
  /** Of built fixtures; undefined: there are none. */
  frameworks: string | undefined
  platform(): Promise<Platform>
  /** What a program of ours inherits. */
  env: Record<string, string>
  /** `aud` of the tokens of identityProvider. */
  audience: string
  /** An identity provider that is measured itself, apart from the platform's. One for each core. */
  identityProvider(core: Core): Promise<IdentityProvider>
  /** Starts a program of ours or a peer, its settings as its one argument. core: the measured one unless said. */
  startPeer(
    name: string,
    script: string,
    settings: Record<string, unknown>,
    core?: Core,
  ): Promise<{ origin: string; pid: number }>
  /** Makes an empty folder that is gone after the run. */
  makeFolder(): Promise<string>
  /** CPU microseconds that the databases have used for us so far; undefined where it cannot be known. */
  databaseCosts(): Promise<{ postgres: number | undefined; redis: number | undefined }>
  /** What a suite has started by itself is ended with the run. */
  onClose(step: () => Promise<unknown>): void
  close(): Promise<void>
}

/** Sets up databases of the run's own. Whatever was started is stopped, and every database dropped, by close(). */
export async function openLab(config: Config, env: Record<string, string>): Promise<Lab> {
  const closing: (() => Promise<unknown>)[] = []
  async function close(): Promise<void> {
    const failures: unknown[] = []
    for (const step of closing.splice(0).toReversed()) await step().catch((error: unknown) => void failures.push(error))
    if (failures.length > 0) throw new AggregateError(failures, 'The run left something behind')
  }
  try {
    return await build()
  } catch (error) {
    await close()
    throw error
  }

  async function build(): Promise<Lab> {
    const administrator = config.databaseUrl ?? (await startEmbedded(closing))
    const sql = postgres(administrator, { max: 1, onnotice: () => {} })
    closing.push(() => sql.end({ timeout: 5 }))
    const prefix = `platform_bench_${randomBytes(4).toString('hex')}`
    const names: string[] = []
    async function createDatabase(suffix: string): Promise<string> {
      const name = `${prefix}_${suffix}`
      await sql`create database ${sql(name)} template template0`
      closing.push(() => sql`drop database if exists ${sql(name)} with (force)`)
      names.push(name)
      return Object.assign(new URL(administrator), { pathname: `/${name}` }).href
    }
    const databases = { api: await createDatabase('api'), idp: await createDatabase('idp') }
    const services = environmentOfServices(env, config.redisUrl)

    const redis = new Redis(config.redisUrl, { maxRetriesPerRequest: 1, retryStrategy: () => null, lazyConnect: true })
    redis.on('error', () => {}) // the failed connect below says it
    await redis.connect().catch((cause: unknown) => {
      throw new Error('Redis of BENCH_REDIS_URL cannot be reached; limits are part of the comparison', { cause })
    })
    closing.push(async () => redis.disconnect())

    async function makeFolder(): Promise<string> {
      const folder = await mkdtemp(join(tmpdir(), 'platform-bench-'))
      closing.push(() => rm(folder, { recursive: true, force: true }))
      return folder
    }

    let platform: Promise<Platform> | undefined
    const identityProviders = new Map<Core, Promise<IdentityProvider>>()
    async function startOwnIdentityProvider(core: Core): Promise<IdentityProvider> {
      const databaseUrl = await createDatabase(`idp_${core}`)
      const idp = await startIdentityProvider({ core, databaseUrl, audience: AUDIENCE, env: services })
      closing.push(idp.stop)
      return idp
    }
    return {
      databaseUrl: databases.api,
      redisUrl: config.redisUrl,
      s3Url: config.s3Url,
      frameworks: config.frameworks,
      platform: () => (platform ??= startPlatform({ databases, env: services, makeFolder, closing })),
      env,
      audience: AUDIENCE,
      identityProvider(core) {
        const idp = identityProviders.get(core) ?? startOwnIdentityProvider(core)
        identityProviders.set(core, idp)
        return idp
      },
      async startPeer(name, script, settings, core = 'server') {
        const port = await freePort()
        const origin = `http://127.0.0.1:${port}`
        const options = { databaseUrl: databases.api, redisUrl: config.redisUrl, port, ...settings }
        const server = await startServer({
          name,
          core,
          script,
          arguments: [JSON.stringify(options)],
          cwd: repository,
          env: { ...env, NODE_ENV: 'production' },
          readyUrl: origin,
        })
        closing.push(server.stop)
        return { origin, pid: server.pid }
      },
      makeFolder,
      async databaseCosts() {
        const backends = await sql<{ pid: number }[]>`
          select pid from pg_stat_activity where datname in ${sql(names)} and backend_type = 'client backend'`
        const usage = await redis.info('cpu')
        const seconds = ['sys', 'user'].map((kind) =>
          Number(new RegExp(`^used_cpu_${kind}:([\\d.]+)`, 'm').exec(usage)?.[1] ?? Number.NaN),
        )
        const redisCpu = seconds.reduce((sum, each) => sum + each * 1_000_000, 0)
        return {
          postgres: cpuOfBackends(backends.map(({ pid }) => pid)),
          redis: Number.isNaN(redisCpu) ? undefined : redisCpu,
        }
      },
      onClose: (step) => void closing.push(step),
      close,
    }
  }
}

async function startEmbedded(closing: (() => Promise<unknown>)[]): Promise<string> {
  const dataFolder = await mkdtemp(join(tmpdir(), 'platform-bench-'))
  closing.push(() => rm(dataFolder, { recursive: true, force: true }))
  const server = await startPostgres({ dataFolder, isDurable: true })
  closing.push(() => server.stop())
  return server.url('postgres')
}

/** What both services are told. */
const environmentOfServices = (env: Record<string, string>, redisUrl: string): Record<string, string> => ({
  // As the launcher and the image start them: with Node's own young heap, large bodies cost half as much CPU again.
  NODE_OPTIONS: '--max-semi-space-size=2',
  MALLOC_ARENA_MAX: '2',
  ...env,
  NODE_ENV: 'production',
  HOST: '127.0.0.1',
  HEALTH_PORT: '0',
  MASTER_KEYS: `bench:${randomBytes(32).toString('base64')}`,
  REDIS_URL: redisUrl,
  TRUSTED_PROXIES: '127.0.0.1',
  PLATFORM_PARENT_PIPE: '1',
})

async function startPlatform({
  databases,
  env,
  makeFolder,
  closing,
}: {
  databases: { api: string; idp: string }
  env: Record<string, string>
  makeFolder: () => Promise<string>
  closing: (() => Promise<unknown>)[]
}): Promise<Platform> {
  const [apiPort, edgePort] = [await freePort(), await freePort()]
  const objects = await makeFolder()
  const apiUrl = `http://localhost:${apiPort}`
  const idp = await startIdentityProvider({ core: 'load', databaseUrl: databases.idp, audience: apiUrl, env })
  const { issuer } = idp
  closing.push(idp.stop)
  const settings = {
    ...env,
    PUBLIC_URL: apiUrl,
    EDGE_PORT: String(edgePort),
    S3_PORT: '0',
    DATABASE_URL: databases.api,
    IDP_URL: issuer,
    OBJECTS_URL: pathToFileURL(objects).href,
    FUNCTION_EGRESS: 'none',
  }
  const startRole = async (role: string, port: number, readyUrl: string, more: Record<string, string> = {}) => {
    const { FUNCTIONS_FOLDER = await makeFolder() } = more
    const server = await startServer({
      name: `The API's ${role}`,
      core: 'server',
      script: 'services/api/src/main.ts',
      arguments: [role],
      cwd: repository,
      env: { ...settings, PORT: String(port), FUNCTIONS_FOLDER, ...more },
      readyUrl,
    })
    closing.push(server.stop)
    return server
  }
  const startApi = async (role: string, port: number, more?: Record<string, string>) => {
    const { pid } = await startRole(role, port, `http://127.0.0.1:${port}/.well-known/jwks.json`, more)
    return { origin: `http://127.0.0.1:${port}`, pid }
  }
  const functionsFolder = await makeFolder()
  const api = await startApi('all', apiPort, { FUNCTIONS_FOLDER: functionsFolder })

  let held: { token: string; since: number } | undefined
  async function userToken(): Promise<string> {
    if (held && Date.now() - held.since < TOKEN_REUSED_MS) return held.token
    const { access_token: token } = await idp.newTokens(scopes)
    held = { token, since: Date.now() }
    return token
  }
  return {
    apiOrigin: api.origin,
    apiPid: api.pid,
    edgeOrigin: `http://127.0.0.1:${edgePort}`,
    functionsFolder,
    startAnotherApi: async (more) => startApi('api', await freePort(), more),
    async command(args) {
      await run(process.execPath, ['services/api/src/cli.ts', ...args], {
        cwd: repository,
        env: { ...settings, PORT: String(apiPort), FUNCTIONS_FOLDER: functionsFolder },
      })
    },
    async startAnotherEdge() {
      const port = await freePort()
      const origin = `http://127.0.0.1:${port}`
      const { pid, stop } = await startRole('edge', await freePort(), origin, { EDGE_PORT: String(port) })
      return { origin, pid, stop }
    },
    async startWorker() {
      const port = await freePort()
      return startRole('worker', port, `http://127.0.0.1:${port}/live`, { HEALTH_PORT: String(port) })
    },
    issuer,
    userToken,
    async call<T>(method: 'GET' | 'POST', path: string, body?: object) {
      const answer = await fetch(`${apiUrl}${path}`, {
        method,
        headers: { authorization: `Bearer ${await userToken()}`, 'content-type': 'application/json' },
        ...(body && { body: JSON.stringify(body) }),
      })
      if (!answer.ok) throw new Error(`${method} ${path} answered ${answer.status}: ${await answer.text()}`)
      return (answer.status === 204 ? undefined : await answer.json()) as T
    },
  }
}
