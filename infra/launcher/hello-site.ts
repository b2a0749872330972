import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import type { Urls } from './summary.ts'

/**
 * Deploys a small site of the demo account, so that something answers at a hostname before any user has deployed. It uses the
 * public API like any client, once per data folder; later changes by users stay. Safe to repeat after an interrupted start. A process
 * of its own does it, so that the launcher need not hold a client for as long as it runs.
 *
 * Returns a sentence on why there is no site if the demo account could not deploy one, for example after its password was
 * changed: the platform runs without it, and does not try again.
 */
export async function deployHelloSite(
  dataFolder: string,
  { baseUrl }: Pick<Urls, 'baseUrl'>,
  password: string,
  isStopping: () => boolean,
): Promise<string | undefined> {
  const marker = join(dataFolder, 'hello-deployed')
  if (existsSync(marker)) return undefined
  let failure: string | undefined
  try {
    await deploy(baseUrl, password)
  } catch (error) {
    if (isStopping()) return undefined
    const why = error instanceof Error ? error.message : String(error)
    failure = `The site of the demo account was not deployed: ${why} Delete ${marker} to try again.`
  }
  writeFileSync(marker, `${new Date().toISOString()}\n`, { mode: 0o600 })
  return failure
}

async function deploy(baseUrl: string, password: string): Promise<void> {
  const child = spawn(process.execPath, [join(import.meta.dirname, 'deploy-hello-site.ts')], {
    stdio: ['pipe', 'ignore', 'pipe'],
  })
  child.stdin.on('error', () => {}) // it ended without reading, and says why on stderr
  child.stdin.end(JSON.stringify({ baseUrl, password }))
  const [why, [code, signal]] = await Promise.all([
    text(child.stderr),
    once(child, 'exit') as Promise<[number | null, string | null]>,
  ])
  if (code !== 0) throw new Error(why.trim() || `its process ended (${signal ?? `exit code ${code}`}).`)
}
