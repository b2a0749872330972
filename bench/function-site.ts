import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readdir } from 'node:fs/promises'
import { type IncomingMessage, request } from 'node:http'
import { join } from 'node:path'
import { buffer, text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import postgres from 'postgres'
import { ZipFile } from 'yazl'
import { type Core, moveTo } from './cores.ts'
import type { Lab } from './lab.ts'
import { processTree } from './process-costs.ts'

/** A deployment with Functions, ACTIVE. */
export interface DeployedFunctions {
  /** Without port. */
  host: string
  /** Status and text of a GET at its hostname. edgeOrigin: of the platform's first edge unless said. */
  ask(path: string, edgeOrigin?: string): Promise<{ status: number; body: string }>
}

/** The same, its slots warm. */
export interface FunctionSite extends DeployedFunctions {
  /** By path of a Function: where its slot listens. */
  sockets: Record<string, string>
}

/** more: further files of the output, by path. */
async function zipOf(
  functions: Record<string, string>,
  more: Record<string, string>,
): Promise<Uint8Array<ArrayBuffer>> {
  const zip = new ZipFile()
  const add = (name: string, content: string) => zip.addBuffer(Buffer.from(content), `.vercel/output/${name}`)
  add('config.json', JSON.stringify({ version: 3 }))
  for (const [path, code] of Object.entries(functions)) {
    const config = { runtime: 'nodejs24.x', handler: 'index.mjs', launcherType: 'Nodejs' }
    add(`functions/${path}.func/.vc-config.json`, JSON.stringify(config))
    add(`functions/${path}.func/index.mjs`, code)
  }
  for (const [path, content] of Object.entries(more)) add(path, content)
  zip.end()
  return new Uint8Array(await buffer(zip.outputStream))
}

async function askDatabase<T>(lab: Lab, ask: (sql: postgres.Sql) => Promise<T>): Promise<T> {
  const sql = postgres(lab.databaseUrl, { max: 1, onnotice: () => {} })
  try {
    return await ask(sql)
  } finally {
    await sql.end()
  }
}

/**
 * Deploys Functions as a person does, in an organization of their own. quotas: those that are not its plan's. more: further files of the
 * output, by path. Throws with the reason where the deployment fails.
 */
export async function activateFunctions(
  lab: Lab,
  functions: Record<string, string>,
  quotas: Record<string, number> = {},
  more: Record<string, string> = {},
): Promise<DeployedFunctions> {
  const platform = await lab.platform()
  const name = `Functions ${randomBytes(4).toString('hex')}`
  const organization = await platform.call<{ id: string }>('POST', '/organizations', { name })
  await askDatabase(lab, async (sql) => {
    for (const [quota, limit] of Object.entries(quotas))
      await sql`insert into quota_overrides values (${organization.id}, ${quota}, ${limit}, now())`
  })
  const { id: applicationId } = await platform.call<{ id: string }>('POST', '/applications', {
    organizationId: organization.id,
    name,
  })
  const { id } = await platform.call<{ id: string }>('POST', '/deployments', { applicationId })
  const path = `/deployments/${id}`
  const { uploadId } = await platform.call<{ uploadId: string }>('POST', `${path}/upload/start`, {})
  const { url } = await platform.call<{ url: string }>('POST', `${path}/upload/part`, { uploadId, partNumber: 1 })
  const { headers } = await fetch(url, { method: 'PUT', body: await zipOf(functions, more) })
  await platform.call('POST', `${path}/upload/complete`, {
    uploadId,
    parts: [{ partNumber: 1, etag: headers.get('etag') }],
  })
  for (;;) {
    const { status, failureReason } = await platform.call<{ status: string; failureReason?: string }>('GET', path)
    if (status === 'ACTIVE') break
    if (status === 'FAILED') throw new Error(`The Functions cannot be deployed: ${failureReason}`)
    await sleep(50)
  }
  const [row] = await askDatabase(
    lab,
    (sql) => sql<{ label: string }[]>`select label from deployments where id = ${id}`,
  )
  const host = `${row?.label}.localhost`

  return {
    host,
    async ask(of, edgeOrigin = platform.edgeOrigin) {
      const sent = request(`${edgeOrigin}${of}`, { headers: { host } }).end()
      const [answer] = (await once(sent, 'response')) as [IncomingMessage]
      return { status: answer.statusCode ?? 0, body: await text(answer) }
    },
  }
}

/** Deploys Functions and asks each once. slotCore: where their slots run. Throws with the reason where the deployment fails. */
export async function deployFunctions(
  lab: Lab,
  functions: Record<string, string>,
  slotCore: Core,
): Promise<FunctionSite> {
  const platform = await lab.platform()
  const { host, ask } = await activateFunctions(lab, functions)
  const sockets = await findSockets(platform.functionsFolder, Object.keys(functions), ask)
  moveTo(
    slotCore,
    processTree(platform.apiPid).filter((pid) => pid !== platform.apiPid),
  )
  return { host, sockets, ask }
}

/** Which slot is whose is told by the slots themselves: each Function is asked for a number that only one socket answers with. */
async function findSockets(
  folder: string,
  functions: readonly string[],
  ask: FunctionSite['ask'],
): Promise<Record<string, string>> {
  const cookies: Record<string, string> = {}
  for (const name of functions) {
    const { body } = await ask(`/${name}?who`)
    for (const file of await readdir(join(folder, 'r', 'sockets'))) {
      const socketPath = join(folder, 'r', 'sockets', file)
      const sent = request({ socketPath, path: `/${name}?who`, headers: { host: 'slot' } }).end()
      const [answer] = (await once(sent, 'response')) as [IncomingMessage]
      if ((await text(answer)) === body) cookies[name] = socketPath
    }
    if (cookies[name] === undefined) throw new Error(`The slot of ${name} cannot be found: ${body}`)
  }
  return cookies
}

/** Goes at the start of a Function: `who` is a text that no other slot has. */
export const WHO = `const who = crypto.randomUUID()\n`
