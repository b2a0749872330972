// engines: postgres
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { callProgram } from '@platform/testkit/call-program'
import { freePort } from '@platform/testkit/free-port'
import { serviceEnvironment } from '@platform/testing/service-process'
import postgres from 'postgres'
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest'

const broken = vi.hoisted(() => ({
  /** The area whose opening throws. */
  area: '',
  /** What areas had opened by then that wants closing. */
  opened: [] as string[],
  /** What was closed of that. */
  closed: [] as string[],
  /** Whether closing fails, once all is closed. */
  isClosingBroken: false,
}))

/** Wraps what opens an area: it throws where the test says so, else it notes that it opened and closed. */
const breakable = vi.hoisted(
  () =>
    (area: string) =>
    async (original: () => Promise<Record<string, (...args: unknown[]) => Promise<{ close?: () => Promise<void> }>>>) =>
      Object.fromEntries(
        Object.entries(await original()).map(([name, open]) => [
          name,
          (...args: unknown[]) => {
            if (broken.area === area) throw new Error(`${area} cannot open`)
            const note = (opened: { close?: () => Promise<void> }) => {
              const { close } = opened
              if (!close) return opened
              broken.opened.push(area)
              return {
                ...opened,
                async close() {
                  broken.closed.push(area)
                  await close()
                  if (broken.isClosingBroken) throw new Error(`${area} cannot close`)
                },
              }
            }
            const opened: unknown = open(...args)
            return opened instanceof Promise ? opened.then(note) : note(opened as never)
          },
        ]),
      ),
)

vi.mock('../src/areas/cluster/area.ts', breakable('cluster'))
vi.mock('../src/areas/tenancy/area.ts', breakable('tenancy'))
vi.mock('../src/areas/credentials/area.ts', breakable('credentials'))
vi.mock('../src/areas/ai/area.ts', breakable('ai'))
vi.mock('../src/areas/storage/area.ts', breakable('storage'))
vi.mock('../src/areas/deploy/area.ts', breakable('deploy'))
vi.mock('../src/areas/observe/area.ts', breakable('observe'))
vi.mock('../src/areas/edge/area.ts', breakable('edge'))
vi.mock('../src/areas/overview/area.ts', breakable('overview'))

let run: Parameters<typeof callProgram>[0]
// Test files share their modules: this one wants its own, and leaves none to those after it.
beforeAll(async () => {
  vi.resetModules()
  ;({ run } = await import('../src/run.ts'))
})
afterAll(() => {
  vi.resetModules()
})

/** The environment of a start on a database of its own, and who is connected to that. */
async function newStart(more: Record<string, string> = {}) {
  const env = await serviceEnvironment('api', {
    IDP_URL: 'http://localhost:1',
    EDGE_PORT: String(await freePort()),
    OBJECTS_URL: 'file:///tmp/platform-no-objects',
    ...more,
  })
  const sql = postgres(env.DATABASE_URL ?? '', { max: 1, onnotice: () => {} })
  onTestFinished(() => sql.end({ timeout: 1 }))
  const left = async () =>
    (
      await sql<{ name: string }[]>`
        select application_name as name from pg_stat_activity
        where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()`
    ).map(({ name }) => name)
  return { env, left }
}

test.each(['cluster', 'tenancy', 'credentials', 'ai', 'storage', 'deploy', 'observe', 'edge', 'overview'])(
  'a start that fails while the area %s opens says so, closes all before it backwards and leaves no connection',
  async (area) => {
    // What fails after that must not hide the reason.
    Object.assign(broken, { area, opened: [], closed: [], isClosingBroken: area === 'edge' })
    const { env, left } = await newStart()
    const { code, stderr } = await callProgram(run, { words: [], env })
    expect([code, stderr]).toEqual([1, `Cannot start: ${area} cannot open\n`])
    expect(broken.closed).toEqual(broken.opened.toReversed())
    await expect.poll(left).toEqual([])
  },
)

test('a start with a file of AI providers that is none names it, and leaves no connection', async () => {
  Object.assign(broken, { area: '', opened: [], closed: [], isClosingBroken: false })
  const folder = await mkdtemp(join(tmpdir(), 'failed-start-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  const path = join(folder, 'providers.json')
  await writeFile(path, '{"providers": 1}')
  const { env, left } = await newStart({ AI_PROVIDERS: path })
  const { code, stderr } = await callProgram(run, { words: [], env })
  expect([code, stderr]).toEqual([1, expect.stringMatching(/^AI_PROVIDERS: .+providers\.json is not right:\n/)])
  expect(broken.closed).toEqual(broken.opened.toReversed())
  await expect.poll(left).toEqual([])
})
