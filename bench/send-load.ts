import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { onCore } from './cores.ts'
import type { Credentials } from './sign-request.ts'

export interface LoadOrder {
  origin: string
  /** With `{address}` and `{request}` for `fillPath`. */
  path: string
  method: 'GET' | 'POST' | 'PUT'
  /** Each request is signed with them. */
  credentials: Credentials | undefined
  headers: Record<string, string>
  body: string | undefined
  /** One for each connection, in the place of `body`; the refresh_token of each becomes the one of its last answer. */
  forms: string[] | undefined
  addressBlock: number
  connections: number
  seconds: number
}

export interface LoadResult {
  requests: number
  seconds: number
  /** Requests that were not answered with a 2xx. */
  failures: number
  p50Ms: number | undefined
  p99Ms: number | undefined
  /** Share of its core that the load maker used; near 1 it measured itself. Undefined where it was another. */
  loadMakerBusy: number | undefined
  facts?: Record<string, number>
}

let filled = 0
const run = process.hrtime.bigint().toString(36)

/** The path of a request from a client address; what is new in each lies in one of 256 folders. */
export const fillPath = (path: string, address: number): string =>
  path
    .replace('{address}', String(address))
    .replace('{request}', () => `${(filled++ % 256).toString(16)}/${run}-${filled.toString(36)}`)

const program = fileURLToPath(import.meta.resolve('./load-maker.ts'))

/** Sends requests for some seconds, from the other core. Throws when the load maker fails or an answer is no 2xx. */
export async function sendLoad(order: LoadOrder, env: Record<string, string>): Promise<LoadResult> {
  const [command, args] = onCore('load', [program])
  const child = spawn(command, args, { env, stdio: ['pipe', 'pipe', 'inherit'] })
  child.stdin.end(JSON.stringify(order))
  const [output, [code]] = await Promise.all([
    child.stdout.toArray(),
    once(child, 'exit') as Promise<[number | null, string | null]>,
  ])
  if (code !== 0) throw new Error(`The load maker ended with exit code ${code}`)
  const result = JSON.parse(Buffer.concat(output as Buffer[]).toString('utf8')) as LoadResult
  if (result.failures > 0)
    throw new Error(`${result.failures} of ${result.requests} requests to ${order.origin} failed`)
  if (result.requests === 0) throw new Error(`${order.origin} answered nothing`)
  return result
}
