import { startPostgres } from '@platform/embedded-postgres/start-postgres'
import type { Postgres } from '@platform/embedded-postgres/start-postgres'
import { rm } from 'node:fs/promises'
import { flushCompileCache } from 'node:module'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { tellAddresses } from './addresses.ts'
import { readAiVariables } from './ai-variables.ts'
import { findCommandLine, provideClientFiles } from './client-files.ts'
import { clients } from './clients.ts'
import type { Ports } from './config.ts'
import { createDatabases } from './databases.ts'
import { explainFailure } from './explain-failure.ts'
import { findWalls, type FunctionWalls } from './walls.ts'
import { makeFunctionsFolder } from './functions-folder.ts'
import { rememberServices } from './leftover-services.ts'
import { prepareStart } from './prepare-start.ts'
import { readSecrets } from './secrets.ts'
import { deployHelloSite } from './hello-site.ts'
import { bringSeedIntoLine } from './seed.ts'
import { startService } from './service.ts'
import type { Service } from './service.ts'
import { StartProblem } from './start-problem.ts'
import { openTurningLog } from './turning-log.ts'
import { summarizeForPeople, summarizeForPrograms } from './summary.ts'

const repository = resolve(import.meta.dirname, '../..')
/** On request a service may finish what it does. */
const DRAIN_MS = 30_000
/** Without its other half it can finish little. */
const DRAIN_AFTER_FAILURE_MS = 1_500
const running: {
  services: Service[]
  postgres: Promise<Postgres> | undefined
  dataFolder: string | undefined
  /** Made by this launcher, not named by the operator. */
  functionsFolder: string | undefined
} = { services: [], postgres: undefined, dataFolder: undefined, functionsFolder: undefined }
let stopRequestedAt: number | undefined

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => void stopOnRequest())
// A closed terminal must not prevent an orderly stop.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {})

// npm sends a SIGTERM only to the shell that started us, and the shell does not forward it: our only sign is that the parent is
// gone. If started in another way, we may be meant to outlive the parent.
// oxlint-disable-next-line node/no-process-env -- see above; not a setting
if (process.env['npm_lifecycle_event'] !== undefined) {
  const parent = process.ppid
  setInterval(() => {
    if (process.ppid !== parent && stopRequestedAt === undefined) void stopOnRequest()
  }, 250).unref()
}

try {
  await start()
} catch (error) {
  if (stopRequestedAt === undefined) await fail(error)
}

/** Starts everything, prints where it is, and returns; the running services keep the process alive. */
async function start(): Promise<void> {
  // oxlint-disable-next-line node/no-process-env -- the launcher's one read of its environment
  const env = process.env
  const { isForPrograms, ports, postgresPort, dataFolder, logLevel, functions, buildEgress } = await prepareStart(
    process.argv.slice(2),
    env,
    repository,
    (held) => (running.dataFolder = held),
  )
  const secrets = await readSecrets(dataFolder)
  const functionsFolder = functions.folder ?? (running.functionsFolder = makeFunctionsFolder(dataFolder))

  report('Starting Postgres…')
  // While Postgres starts, so they cost no time.
  const findingWalls = findWalls(functions, buildEgress)
  const clientsFolder = join(dataFolder, 'clients')
  const providingClients = provideClientFiles(
    repository,
    { folder: clientsFolder, logFile: join(dataFolder, 'logs', 'clients.log') },
    env,
  )
  const postgresLogFile = join(dataFolder, 'logs', 'postgres.log')
  const postgresLog = openTurningLog(postgresLogFile)
  running.postgres = startPostgres({
    dataFolder: join(dataFolder, 'postgres'),
    port: postgresPort || undefined,
    log: (line) => postgresLog.write(`${line}\n`),
  })
  const postgres = await running.postgres
  if (stopRequestedAt !== undefined) return
  stopWhenItEnds(postgres.ended.then(() => `Postgres ended. Its log is ${postgresLogFile}.`))
  await createDatabases(postgres.url('postgres'), secrets.databasePasswords)
  if (stopRequestedAt !== undefined) return

  const urls = {
    consoleUrl: `http://localhost:${ports.console}`,
    baseUrl: `http://localhost:${ports.api}`,
    idpUrl: `http://localhost:${ports.idp}`,
    edgeUrl: `http://localhost:${ports.edge}`,
    s3Url: `http://localhost:${ports.s3}`,
  }
  const walls = await findingWalls
  const environment = describeEnvironments({
    env,
    ports,
    urls,
    postgres,
    dataFolder,
    clientsFolder,
    logLevel,
    functions: { ...functions, ...walls.functions, folder: functionsFolder },
    buildEgress: walls.builds.egress,
    aiVariables: readAiVariables(env, repository),
    ...secrets,
  })

  report('Starting the identity provider and the API…')
  const idp = startService({
    name: 'identity provider',
    script: 'services/idp/src/main.ts',
    arguments: [],
    cwd: repository,
    env: environment.idp,
    logFile: join(dataFolder, 'logs', 'idp.log'),
  })
  const api = startService({
    name: 'API',
    script: 'services/api/src/main.ts',
    arguments: ['all'],
    cwd: repository,
    env: environment.api,
    logFile: join(dataFolder, 'logs', 'api.log'),
  })
  running.services.push(idp, api)
  rememberServices(dataFolder, running.services)
  await Promise.all([
    api.waitUntilAnswers(`${urls.baseUrl}/.well-known/jwks.json`),
    seedWhenReady(),
    postgres.reserve(),
  ])
  if (stopRequestedAt !== undefined) return
  for (const service of running.services) stopWhenItEnds(service.ended)
  const missing = await deployHelloSite(dataFolder, urls, secrets.demoPassword, () => stopRequestedAt !== undefined)
  if (stopRequestedAt !== undefined) return
  for (const sentence of [missing, await providingClients]) if (sentence !== undefined) report(sentence)
  tellAddresses(dataFolder, urls)
  flushCompileCache() // otherwise written at our end, which may be a kill
  process.stdout.write(
    isForPrograms
      ? `${summarizeForPrograms(urls, secrets)}\n`
      : summarizeForPeople(urls, secrets, dataFolder, {
          warnings: [...walls.functions.warnings, ...walls.builds.warnings],
          isTerminal: process.stdout.isTTY,
          commandLine: await findCommandLine(clientsFolder),
        }),
  )

  async function seedWhenReady() {
    await idp.waitUntilAnswers(`${urls.idpUrl}/.well-known/openid-configuration`)
    const cli = 'services/idp/src/cli.ts'
    const { consoleUrl, baseUrl } = urls
    await bringSeedIntoLine({ dataFolder, secrets, consoleUrl, baseUrl, cli, cwd: repository, env: environment.idp })
  }
}

/** The services get only these variables, so their behaviour does not depend on the user's shell. */
function describeEnvironments({
  env,
  ports,
  urls,
  postgres,
  dataFolder,
  clientsFolder,
  logLevel,
  functions,
  buildEgress,
  aiVariables,
  masterKeys,
  databasePasswords,
}: {
  env: Record<string, string | undefined>
  ports: Ports
  urls: { consoleUrl: string; baseUrl: string; idpUrl: string }
  postgres: Postgres
  dataFolder: string
  clientsFolder: string
  logLevel: string
  functions: Pick<FunctionWalls, 'sandbox' | 'egress'> & { folder: string; variables: Record<string, string> }
  buildEgress: string
  aiVariables: Record<string, string>
  masterKeys: string
  databasePasswords: { api: string; idp: string }
}): { idp: Record<string, string>; api: Record<string, string> } {
  const both = {
    ...Object.fromEntries(
      [
        'PATH',
        'HOME',
        'TMPDIR',
        'TZ',
        'LANG',
        'NODE_COMPILE_CACHE',
        'NODE_EXTRA_CA_CERTS',
        'DATABASE_IDLE_MS',
        'HASHING_IDLE_MS',
      ].flatMap((name) => (env[name] ? [[name, env[name]]] : [])),
    ),
    NODE_ENV: 'production',
    HOST: '127.0.0.1',
    HEALTH_PORT: '0',
    MASTER_KEYS: masterKeys,
    LOG_LEVEL: logLevel,
  }
  const mailUrl = pathToFileURL(join(dataFolder, 'mail')).href
  const databaseUrl = (name: 'api' | 'idp') => postgres.url(name, { name, password: databasePasswords[name] })
  return {
    idp: {
      ...both,
      PUBLIC_URL: urls.idpUrl,
      PORT: String(ports.idp),
      DATABASE_URL: databaseUrl('idp'),
      AUDIENCES: urls.baseUrl,
      INVITATION_ISSUERS: urls.baseUrl,
      MAIL_URL: mailUrl,
      // The reader of the page sits at the machine that has the folder.
      SHOW_MAIL_FOLDER: 'true',
      SIGN_UP: 'open',
    },
    api: {
      ...aiVariables,
      ...both,
      PUBLIC_URL: urls.baseUrl,
      PORT: String(ports.api),
      DATABASE_URL: databaseUrl('api'),
      IDP_URL: urls.idpUrl,
      MAIL_URL: mailUrl,
      EDGE_PORT: String(ports.edge),
      S3_PORT: String(ports.s3),
      S3_DOMAIN: `s3.localhost:${ports.s3}`,
      CONSOLE_URL: urls.consoleUrl,
      CONSOLE_PORT: String(ports.console),
      CONSOLE_CLIENT_IDS: clients.console.id,
      DOCS_CLIENT_ID: clients.docs.id,
      OBJECTS_URL: pathToFileURL(join(dataFolder, 'objects')).href,
      CLIENTS_FOLDER: clientsFolder,
      DEFAULT_PLAN: 'pro',
      API_INTERNAL_URL: `http://127.0.0.1:${ports.api}`,
      FUNCTION_SANDBOX: functions.sandbox,
      FUNCTION_EGRESS: functions.egress,
      FUNCTIONS_FOLDER: functions.folder,
      BUILD_EGRESS: buildEgress,
      ...functions.variables,
    },
  }
}

/** Half a platform is useless, and a restarted service may fail again: everything stops, and says why. */
function stopWhenItEnds(ended: Promise<string>): void {
  void (async () => {
    const why = await ended
    if (stopRequestedAt === undefined) await fail(new StartProblem(why))
  })()
}

async function stopOnRequest(): Promise<void> {
  // npm forwards the Ctrl-C that the terminal has already sent us; only a later one is a second request.
  if (stopRequestedAt !== undefined) {
    if (Date.now() - stopRequestedAt > 1000) for (const service of running.services) service.kill()
    return
  }
  stopRequestedAt = Date.now()
  report('Stopping (Ctrl-C again to hurry)…')
  await stopAll(DRAIN_MS)
  process.exit(0)
}

async function fail(error: unknown): Promise<void> {
  stopRequestedAt = Date.now()
  report(explainFailure(error, running.dataFolder))
  await stopAll(DRAIN_AFTER_FAILURE_MS)
  process.exit(1)
}

/** Services first: they still write to Postgres while they finish. */
async function stopAll(patienceMs: number): Promise<void> {
  await Promise.all(running.services.map((service) => service.stop(patienceMs)))
  const postgres = await running.postgres?.catch(() => undefined)
  await postgres?.stop(patienceMs)
  // rmSync takes a file that another process removes meanwhile for the end of its work.
  if (running.functionsFolder) await rm(running.functionsFolder, { recursive: true, force: true, maxRetries: 5 })
  if (running.dataFolder) {
    rememberServices(running.dataFolder, [])
    tellAddresses(running.dataFolder, undefined)
  }
}

function report(line: string): void {
  process.stderr.write(`${line}\n`)
}
