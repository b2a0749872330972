import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { freePort } from '@platform/testkit/free-port'
import { compileCache } from '@platform/testkit/test-environment'
import { onTestFinished } from 'vitest'
import { createServiceDatabase } from './service-databases.ts'

/** A working environment for a service as a process of its own, on a database of its own. */
export async function serviceEnvironment(
  service: 'api' | 'idp',
  more: Record<string, string> = {},
): Promise<Record<string, string>> {
  const port = await freePort()
  return {
    ...compileCache,
    PATH: process.env.PATH ?? '', // oxlint-disable-line node/no-process-env -- a child needs to be found
    PUBLIC_URL: `http://localhost:${port}`,
    PORT: String(port),
    HEALTH_PORT: String(await freePort()),
    DATABASE_URL: (await createServiceDatabase(service)).url,
    MASTER_KEYS: `test:${randomBytes(32).toString('base64')}`,
    LOG_LEVEL: 'silent',
    ...more,
  }
}

/** Starts `main` with this environment and no other, for one test: if it still runs after that it is killed. */
export function startServiceProcess(main: URL, env: Record<string, string>, argument?: string) {
  const child = spawn(process.execPath, [main.pathname, ...(argument ? [argument] : [])], {
    env,
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  onTestFinished(() => void child.kill('SIGKILL'))
  child.stdout.resume()
  const ended = Promise.all([once(child, 'exit'), text(child.stderr)]).then(([[code], stderr]) => ({
    code: code as number | null,
    stderr,
  }))
  return { child, ended }
}

/** The status of a GET; 0 where nobody answers. */
export const statusOf = (url: string): Promise<number> =>
  fetch(url).then(
    ({ status }) => status,
    () => 0,
  )

/** Asks until the status comes, for at most 20 s. */
export async function untilStatus(url: string, status: number): Promise<void> {
  let last = 0
  for (const deadline = Date.now() + 20_000; Date.now() < deadline; await sleep(50)) {
    last = await statusOf(url)
    if (last === status) return
  }
  throw new Error(`${url} did not come to answer ${status}; at last it answered ${last || 'nothing'}`)
}
