// engines: none, what a killed edge leaves behind is not in an engine
import { randomBytes } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { findTestObstacle } from '@platform/sandbox/test-obstacle'
import { unless } from '@platform/test-runner/task-meta'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { serviceEnvironment, startServiceProcess, untilStatus } from '@platform/testing/service-process'
import { freePort } from '@platform/testkit/free-port'
import { newObjectsUrl } from '@platform/testkit/objects'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { visit } from './deploy.ts'
import { newDeployment, untilEnded } from './deployments.ts'
import { buildOutput, handler } from './functions.ts'
import { newOwner } from './scenario.ts'

const main = new URL('../src/main.ts', import.meta.url)
const MASTER_KEYS = `test:${randomBytes(32).toString('base64')}`
let platform: TestPlatform
let objects: Awaited<ReturnType<typeof newObjectsUrl>>
let folder: string
beforeAll(async () => {
  objects = await newObjectsUrl()
  platform = await startPlatform({ hasWorker: true, objectsUrl: objects.url, env: { MASTER_KEYS } })
  folder = await mkdtemp(join(tmpdir(), 'fn-'))
  await chmod(folder, 0o711)
})
afterAll(async () => {
  await platform.close()
  await objects.remove()
  // Functions end with their edge, and may write until then.
  await rm(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 })
})

/** Every process, with its parent and with the time it started at, which tells it from a later one of the same number. */
function processes(): Map<number, { parent: number; key: string }> {
  const entries = new Map<number, { parent: number; key: string }>()
  for (const name of readdirSync('/proc').filter((each) => /^\d+$/.test(each))) {
    try {
      const stat = readFileSync(`/proc/${name}/stat`, 'utf8')
      const [state, parent, ...rest] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
      if (state !== 'Z') entries.set(Number(name), { parent: Number(parent), key: `${name}:${rest[17]}` })
    } catch {
      // It ended meanwhile.
    }
  }
  return entries
}
function keysBelow(pid: number): string[] {
  const all = processes()
  const isBelow = (each: number): boolean => {
    const parent = all.get(each)?.parent ?? 0
    return parent !== 0 && (parent === pid || isBelow(parent))
  }
  return [...all].filter(([each]) => isBelow(each)).map(([, { key }]) => key)
}

// Without walls a child that detached itself belongs to nobody.
const obstacle = findTestObstacle(['bwrap'])

test(
  'an edge that is killed leaves no process, and one that takes its place serves Functions at once',
  unless(obstacle),
  async () => {
    const ana = await newOwner(platform)
    const { id } = await newDeployment(platform, ana, {
      archive: buildOutput({
        index: handler(`
        if (req.url === '/?children') {
          const { spawn } = await import('node:child_process')
          for (let n = 0; n < 3; n++) spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { detached: true, stdio: 'ignore' })
        }
        res.end('answered')`),
      }),
    })
    const { label } = await untilEnded(platform, id)
    const port = await freePort()
    const own = await serviceEnvironment('api')
    const env = {
      ...own,
      DATABASE_URL: platform.databaseUrl,
      MASTER_KEYS,
      OBJECTS_URL: objects.url,
      IDP_URL: platform.idpUrl,
      PUBLIC_URL: platform.apiUrl,
      APPS_URL: `http://localhost:${port}`,
      EDGE_PORT: String(port),
      S3_PORT: '0',
      FUNCTION_SANDBOX: 'auto',
      FUNCTION_EGRESS: 'host',
      FUNCTIONS_FOLDER: folder,
      HOST: 'localhost',
    }
    const edge = { edgeUrl: `http://localhost:${port}` }
    const host = `${label}.localhost:${port}`
    const ready = `http://localhost:${own['HEALTH_PORT']}/ready`

    const { child, ended } = startServiceProcess(main, env, 'edge')
    await untilStatus(ready, 200)
    expect((await visit(edge, host, '/?children')).text).toBe('answered')
    const below = await vi.waitFor(
      () => {
        const value = keysBelow(child.pid ?? 0)
        // The slot's Node, its three children, and what walls them in.
        expect(value.length).toBeGreaterThanOrEqual(4)
        return value
      },
      { timeout: 60_000 },
    )
    child.kill('SIGKILL')
    await ended
    await vi.waitFor(
      () => {
        const keys = new Set(
          processes()
            .values()
            .map(({ key }) => key),
        )
        expect(below.filter((each) => keys.has(each))).toEqual([])
      },
      { timeout: 60_000 },
    )

    const next = startServiceProcess(main, env, 'edge')
    await untilStatus(ready, 200)
    expect((await visit(edge, host, '/')).text).toBe('answered')
    next.child.kill('SIGTERM')
    expect((await next.ended).code).toBe(0)
  },
)
