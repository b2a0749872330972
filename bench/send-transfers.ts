import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { onCore } from './cores.ts'
import type { Credentials } from './sign-request.ts'

/** Bytes that pass in large bodies, up or down. */
export interface TransferOrder {
  origin: string
  /** With `{request}` for `fillPath`. */
  path: string
  /** How one goes: by S3, or as an upload that is created and sent in one PATCH, whose metadata may hold `{request}`. */
  how:
    | { kind: 'PUT' | 'GET'; credentials: Credentials }
    | { kind: 'tus'; headers: Record<string, string>; metadata: Record<string, string> }
  mebibytes: number
  connections: number
  seconds: number
}

export interface TransferResult {
  /** Mebibytes. */
  perSecond: number
  seconds: number
  p50Ms: number
  p99Ms: number
  /** Share of its core that the load maker used. */
  loadMakerBusy: number
}

const program = fileURLToPath(import.meta.resolve('./transfer-load.ts'))

/** Sends or takes bodies from the other core, until one that begins within `seconds` is over. Throws when one fails. */
export async function sendTransfers(order: TransferOrder, env: Record<string, string>): Promise<TransferResult> {
  const [command, args] = onCore('load', [program])
  const child = spawn(command, args, { env, stdio: ['pipe', 'pipe', 'inherit'] })
  child.stdin.end(JSON.stringify(order))
  const [output, [code]] = await Promise.all([
    child.stdout.toArray(),
    once(child, 'exit') as Promise<[number | null, string | null]>,
  ])
  if (code !== 0) throw new Error(`The load maker ended with exit code ${code}`)
  return JSON.parse(Buffer.concat(output as Buffer[]).toString('utf8')) as TransferResult
}
