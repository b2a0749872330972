import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { unless } from '@platform/test-runner/task-meta'
import type { TestPlatform } from '@platform/testing/platform'
import { approveDevice } from '@platform/testkit/approve-device'
import { openShellSession, shells } from '@platform/testkit/shell-session'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { newOwner } from '../../../services/api/test/scenario.ts'
import { findTestObstacle } from '../../sandbox/src/test-obstacle.ts'
import { builtCommandLine } from './built.ts'
import { startPlatformForSignIns } from './sign-ins.ts'

const page = await readFile(join(import.meta.dirname, '../../../README.md'), 'utf8')
// The test starts the platform itself, on ports and in a folder of its own.
const [start, ...blocks] = [...page.matchAll(/^```sh\n(.*?)^```$/gms)].map(([, commands = '']) => commands)
const obstacle = findTestObstacle(['bwrap', 'setpriv', 'prlimit', 'bash', 'zsh', 'script', 'curl'])

const SIGNED_IN = /^Signed in at \S+ as \S+$/m
/** What the end of each block prints. */
const PRINTS: readonly RegExp[] = [
  /^$/,
  SIGNED_IN,
  // The last line of the log may come behind the state.
  /^ACTIVE\n(?:Ready in .+\n)?http:\S+\n$/m,
  /^<h1>Hello from my shop<\/h1>\n$/m,
  /^Hello, world\n$/m,
  /somebody greets world/,
  /^<h1>Hello from my shop<\/h1>\n$/m,
  /"content": *"[^"]*Hello/,
  /<Key>index\.html<\/Key>/,
]

test('README.md starts the platform, and all of its other blocks are ones that the next test runs', () => {
  expect(start).toBe('npm start\n')
  expect(page.match(/^ *(```|~~~)sh$/gm)).toHaveLength(1 + PRINTS.length)
  expect(blocks).toHaveLength(PRINTS.length)
})

describe('README.md', unless(obstacle), () => {
  let server: TestPlatform
  beforeAll(async () => {
    const { folder: CLIENTS_FOLDER } = await builtCommandLine()
    server = await startPlatformForSignIns({ hasWorker: true, env: { CLIENTS_FOLDER } })
  })
  afterAll(() => server.close())

  /** Writes the test's addresses in place of those of `npm start`, and names of their own in place of those that a platform has once. */
  const moved = (commands: string, suffix: string) =>
    commands
      .replaceAll(/\b(?:my-shop|media)\b/g, `$&-${suffix}`)
      .replaceAll('localhost:4000', new URL(server.apiUrl).host)
      .replaceAll('localhost:4002', new URL(server.edgeUrl).host)

  test.concurrent.for(shells)(
    'its blocks, pasted into %s one by one, do what the page says',
    async (name, { expect, onTestFinished }) => {
      const folder = await mkdtemp(join(tmpdir(), 'readme-'))
      const { person } = await newOwner(server)
      const shell = await openShellSession(name, folder, { PLATFORM_API_URL: server.apiUrl })
      onTestFinished(async () => {
        await shell.close()
        // What runs in a shell that was hung up takes a moment to end.
        await rm(folder, { recursive: true, maxRetries: 10, retryDelay: 100 })
      })
      const approve = (printed: string) => {
        const [, completeUrl = '', userCode = ''] = /^Open (\S+)\nand approve the code (\S+)\n/m.exec(printed) ?? []
        return approveDevice({ completeUrl, userCode }, person)
      }
      for (const [at, block] of blocks.entries()) {
        const commands = moved(block, name)
        const prints = PRINTS[at] ?? /^$/
        let printed = await shell.paste(commands, { to: /^and approve the code \S+\n/m, by: approve })
        // Edges and logs follow a moment later.
        const last = commands.trim().split('\n').at(-1) ?? ''
        if (!prints.test(printed) && /^(?:curl|platform logs)/.test(last))
          await expect.poll(async () => (printed = await shell.paste(last))).toMatch(prints)
        expect(printed).toMatch(prints)
      }
      // Its CPU time is counted once it has ended.
      await shell.close()
    },
  )
})
