import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { onCore } from './cores.ts'

/** Requests at a steady pace. */
export interface PacedOrder {
  /** POST by default. */
  method?: 'GET' | 'POST'
  url: string
  headers: Record<string, string>
  /** As many as may be under way. RANDOM in one is a UUID at each use; its refresh_token becomes the one of its answer. */
  forms: string[]
  perSecond: number
}

export interface PacedResult {
  perSecond: number
  /** How long it was sent, the time that is not timed included. */
  seconds: number
  p50Ms: number
  p99Ms: number
  /** How many answers had which status. */
  statuses: Record<string, number>
}

const program = fileURLToPath(import.meta.resolve('./paced-load.ts'))

/** Sends loads side by side for some seconds, each from a process of its own: who measures one is not kept busy by another. */
export const sendPacedLoad = (
  loads: readonly PacedOrder[],
  seconds: number,
  env: Record<string, string>,
): Promise<PacedResult[]> => Promise.all(loads.map((load) => sendOne(load, seconds, env)))

/** Throws when it cannot keep the pace. */
async function sendOne(load: PacedOrder, seconds: number, env: Record<string, string>): Promise<PacedResult> {
  const [command, args] = onCore('any', [program])
  const child = spawn(command, args, { env, stdio: ['pipe', 'pipe', 'inherit'] })
  child.stdin.end(JSON.stringify({ seconds, ...load }))
  const [output, [code]] = await Promise.all([
    child.stdout.toArray(),
    once(child, 'exit') as Promise<[number | null, string | null]>,
  ])
  if (code !== 0) throw new Error(`The load maker ended with exit code ${code}`)
  return JSON.parse(Buffer.concat(output as Buffer[]).toString('utf8')) as PacedResult
}
