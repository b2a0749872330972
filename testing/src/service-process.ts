import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { inspect } from 'node:util'
import { freePort } from '@platform/testkit/free-port'
import { inheritedEnvironment } from '@platform/testkit/test-environment'
import { onTestFinished } from 'vitest'
import { createServiceDatabase } from './service-databases.ts'

/** A working environment for a service as a process of its own, on a database of its own. */
export async function serviceEnvironment(
  service: 'api' | 'idp',
  more: Record<string, string> = {},
): Promise<Record<string, string>> {
  const port = await freePort()
  return {
    ...inheritedEnvironment,
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

interface Ended {
  code: number | null
  stderr: string
}

/** The processes that were started last, by the ports they were told to listen on. */
const endOf = new Map<string, Promise<Ended>>()

/** Starts `main` with this environment and no other, for one test: if it still runs after that it is killed. */
export function startServiceProcess(main: URL, env: Record<string, string>, argument?: string) {
  const child = spawn(process.execPath, [main.pathname, ...(argument ? [argument] : [])], {
    env,
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  onTestFinished(() => void child.kill('SIGKILL'))
  child.stdout.resume()
  const ended = Promise.all([once(child, 'exit'), text(child.stderr)]).then(([[code], stderr]): Ended => ({
    code: code as number | null,
    stderr,
  }))
  for (const name of ['PORT', 'HEALTH_PORT', 'EDGE_PORT', 'S3_PORT', 'CONSOLE_PORT']) {
    const port = env[name]
    if (port !== undefined && port !== '0') endOf.set(port, ended)
  }
  return { child, ended }
}

/** The status of a GET; 0 where nobody answers. */
export const statusOf = (url: string): Promise<number> =>
  fetch(url).then(
    ({ status }) => status,
    () => 0,
  )

/**
 * Asks until the status comes, for as long as the process lives that should answer: the test's timeout is the only limit of time.
 *
 * ended: settles with the end of that process; may be left out for one of `startServiceProcess`.
 * Throws with what the process wrote to stderr if it ends before.
 */
export async function untilStatus(
  url: string,
  status: number,
  ended: Promise<unknown> | undefined = endOf.get(new URL(url).port),
): Promise<void> {
  let last = 0
  const gone = ended?.then((end) => {
    throw new Error(`${url} answered ${last || 'nothing'} and not ${status} until its process ended: ${inspect(end)}`)
  })
  gone?.catch(() => {}) // it may end later, when nobody asks any more
  for (; ; await sleep(50)) {
    last = await Promise.race([statusOf(url), ...(gone ? [gone] : [])])
    if (last === status) return
  }
}
