import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { env } from 'node:process'
import { text } from 'node:stream/consumers'
import { pathToFileURL } from 'node:url'
import type { Release } from '@platform/testing/earlier-schemas'
import { createDatabase } from '@platform/testkit/databases'
import { freePort } from '@platform/testkit/free-port'
import { inheritedEnvironment } from '@platform/testkit/test-environment'
import { startServiceProcess, untilStatus } from '@platform/testing/service-process'
import { expect, onTestFinished } from 'vitest'
import { startNginx } from './nginx.ts'

/** In the order in which an upgrade replaces them; going back takes the other one. */
export const roles = ['idp', 'worker', 'api', 'edge'] as const
export type Role = (typeof roles)[number]

/** What can be started: today's services, or those of a release in a folder. */
export interface Programs {
  folder: string
  /** Undefined: today's. */
  release?: Release
}

export interface UpgradeAddresses {
  apiUrl: string
  idpUrl: string
  /** Where nginx listens, by what stands behind it. */
  ports: Record<Exclude<Role, 'worker'>, number>
  /** The domain of buckets, with nginx's port. */
  objectsDomain: string
}

const serviceOf = (role: Role): 'api' | 'idp' => (role === 'idp' ? 'idp' : 'api')

/** The port that a role serves on, as its variable is called. */
const portVariables = { idp: 'PORT', worker: undefined, api: 'PORT', edge: 'EDGE_PORT' } as const

const refusesConnections = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
    socket.once('error', () => resolve(true))
    socket.once('connect', () => {
      socket.destroy()
      resolve(false)
    })
  })

export type UpgradeProcess = Awaited<ReturnType<Awaited<ReturnType<typeof openUpgrade>>['start']>>

/** Two empty databases, nginx before two ports for each role, and what starts programs on either of them. */
export async function openUpgrade() {
  const folder = await mkdtemp(join(tmpdir(), 'up-'))
  const ends: Promise<unknown>[] = []
  onTestFinished(async () => {
    // Killed by now; until they have ended they may write.
    await Promise.all(ends)
    await rm(folder, { recursive: true, force: true })
  })
  const [api, idp] = await Promise.all([createDatabase('empty'), createDatabase('empty')])
  const databases = { api, idp }
  const newPorts = async () => [await freePort(), await freePort(), await freePort()] as const
  const [ofApi, ofIdp, ofEdge] = await Promise.all([newPorts(), newPorts(), newPorts()])
  const places = { api: ofApi, idp: ofIdp, edge: ofEdge, worker: undefined }
  const nginx = await startNginx([ofApi, ofIdp, ofEdge].map(([port, ...upstreams]) => ({ port, upstreams })))
  const [apiUrl, idpUrl] = [`http://localhost:${ofApi[0]}`, `http://localhost:${ofIdp[0]}`]
  const objectsDomain = `objects.localhost:${ofEdge[0]}`
  const masterKeys = `test:${randomBytes(32).toString('base64')}`
  const logs: string[] = []

  /** Everything that some release wants to know; each is told what it knows. */
  async function variablesOf(
    role: Role,
    place: 0 | 1,
    { folder: root, release }: Programs,
  ): Promise<Record<string, string>> {
    const service = serviceOf(role)
    const current: Record<string, string> = {
      PUBLIC_URL: service === 'idp' ? idpUrl : apiUrl,
      HEALTH_PORT: String(await freePort()),
      DATABASE_URL: databases[service].url,
      MASTER_KEYS: masterKeys,
      TRUSTED_PROXIES: '127.0.0.1',
      LOG_LEVEL: 'warn',
      STOP_NOTICE_MS: '500',
      ...(service === 'idp'
        ? { AUDIENCES: apiUrl }
        : {
            IDP_URL: idpUrl,
            OBJECTS_URL: pathToFileURL(join(folder, 'objects')).href,
            OBJECTS_DOMAIN: objectsDomain,
            APPS_URL: `http://apps.localhost:${ofEdge[0]}`,
            FUNCTION_SANDBOX: 'none',
            FUNCTION_EGRESS: 'host',
            S3_PORT: '0',
          }),
    }
    const portVariable = portVariables[role]
    if (portVariable) current[portVariable] = String(places[role]?.[place + 1])
    /** What today's start would refuse. */
    const retired = { APPS_DOMAIN: `apps.localhost:${ofEdge[0]}` }
    const known = release && new Set(release.variables[service])
    const variables = known
      ? Object.fromEntries(Object.entries({ ...current, ...retired }).filter(([name]) => known.has(name)))
      : current
    const cache = release ? { NODE_COMPILE_CACHE: join(root, 'node_modules/.cache/node') } : inheritedEnvironment
    return { ...variables, ...cache, PATH: env['PATH'] ?? '', TMPDIR: folder }
  }

  const mainOf = (role: Role, { folder: root }: Programs, name: 'main' | 'cli' = 'main') =>
    pathToFileURL(join(root, 'services', serviceOf(role), 'src', `${name}.ts`))

  /** Starts the programs' role on one of its two places, and returns when it is ready. */
  async function start(role: Role, place: 0 | 1, programs: Programs) {
    const variables = await variablesOf(role, place, programs)
    const service = startServiceProcess(mainOf(role, programs), variables, role === 'idp' ? undefined : role)
    ends.push(service.ended)
    const name = `${role} of ${programs.release?.version ?? 'today'}`
    service.child.stdout.setEncoding('utf8').on('data', (lines: string) => void logs.push(`${name}: ${lines}`))
    const health = `http://127.0.0.1:${variables['HEALTH_PORT']}`
    await untilStatus(`${health}/ready`, 200)
    const port = places[role]?.[place + 1]
    if (port !== undefined) await nginx.takeIn(port)
    return {
      ...service,
      name,
      /** Has nginx send nothing more to a process of an earlier release: a stop of 0.19.0 may reset a request on a kept connection. */
      async leaveOut() {
        if (port !== undefined && programs.release) await nginx.leaveOut(port)
      },
      isRunning: () => service.child.exitCode === null && service.child.signalCode === null,
      /** Until nginx has sent it a request: before that the other one must not stop. */
      async untilServing() {
        if (role === 'worker') return
        const isServing = async () =>
          /^http_request_duration_seconds_count\{.*\} [1-9]/m.test(await (await fetch(`${health}/metrics`)).text())
        await expect.poll(isServing).toBe(true)
      },
      /** Until its port is closed: what it goes on with began before. */
      async untilClosed() {
        if (port !== undefined) await expect.poll(() => refusesConnections(port)).toBe(true)
      },
    }
  }

  return {
    apiUrl,
    idpUrl,
    objectsDomain,
    ports: { api: ofApi[0], idp: ofIdp[0], edge: ofEdge[0] },
    start,
    /** What the processes logged, and nginx. */
    readLogs: async () => [...logs, await nginx.readErrors()].join('\n').slice(-20_000),
    /** Has the release's own command make users and clients, and with that the schema of its identity provider. */
    async apply(programs: Programs, wanted: object) {
      const variables = await variablesOf('idp', 0, programs)
      const words = [mainOf('idp', programs, 'cli').pathname, 'apply', '-', '--json']
      const child = spawn(process.execPath, words, { env: variables, stdio: ['pipe', 'ignore', 'pipe'] })
      child.stdin.end(JSON.stringify(wanted))
      const [stderr, [code]] = await Promise.all([text(child.stderr), once(child, 'exit')])
      expect(code, stderr).toBe(0)
    },
  }
}
