import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { findTestObstacle } from '@platform/sandbox/test-obstacle'
import { unless } from '@platform/test-runner/task-meta'
import { approveDevice } from '@platform/testkit/approve-device'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { commandLineClient } from '../../idp/src/commands/init.ts'
import { createClient } from '../../idp/src/features/clients/clients.ts'
import { openShellSession, type ShellSession } from './shell-session.ts'

const page = await readFile(join(import.meta.dirname, '../../../docs/api-by-curl.md'), 'utf8')
const blocks = [...page.matchAll(/^```sh\n(.*?)^```$/gms)].map(([, text = '']) => text)
const obstacle = findTestObstacle(['bwrap', 'setpriv', 'prlimit', 'bash', 'curl', 'zip'])

/** Matches the output that a block announces: its comments at the start of a line, where `…` stands for anything. */
function promiseOf(block: string): RegExp {
  const lines = [...block.matchAll(/^# (.+)$/gm)].map(([, line = '']) => line.split('…').map(RegExp.escape).join('.*'))
  return new RegExp(lines.join('[^]*'))
}

/** Writes the addresses of a platform in place of those of `npm start`. Throws if the blocks do not have them all, or have others. */
function blocksAt({ apiUrl, idpUrl, edgeUrl }: TestPlatform): string[] {
  const ports = new Map(Object.entries({ 4000: apiUrl, 4001: idpUrl, 4002: edgeUrl }))
  const missing = new Set(ports.keys())
  const moved = blocks.map((block) =>
    block.replaceAll(/(?<=localhost:)\d+/g, (port) => {
      const url = ports.get(port)
      if (url === undefined) throw new Error(`Nothing listens on ${port} of:\n${block}`)
      missing.delete(port)
      return new URL(url).port
    }),
  )
  if (missing.size > 0) throw new Error(`No block names ${[...missing].join(', ')}`)
  return moved
}

test('every code block of docs/api-by-curl.md is one that the next test runs', () => {
  expect(page.match(/^ *(```|~~~).*/gm)).toEqual(blocks.flatMap(() => ['```sh', '```']))
  expect(blocks.length).toBeGreaterThan(12)
})

describe('docs/api-by-curl.md', unless(obstacle), () => {
  let platform: TestPlatform
  let folder: string
  let shell: ShellSession
  beforeAll(async () => {
    platform = await startPlatform({ hasWorker: true })
    await createClient(platform.idp, commandLineClient)
    folder = await mkdtemp(join(tmpdir(), 'curl-guide-'))
    shell = openShellSession(folder)
  })
  afterAll(async () => {
    await shell.close()
    await platform.close()
    await rm(folder, { recursive: true })
  })

  test('its commands, copied into a terminal block by block, print what its comments say', async () => {
    const person = await platform.person()
    const readme = '# What the reader has in the folder\n'
    await writeFile(join(folder, 'README.md'), readme)

    /** What a reader does next, or sees besides, by a text that only this block has. */
    const followUps = new Map<string, (printed: string) => unknown>([
      [
        '/device_authorization',
        (printed) => {
          const completeUrl = printed.trim()
          const userCode = new URL(completeUrl).searchParams.get('user_code') ?? ''
          return approveDevice({ completeUrl, userCode }, person)
        },
      ],
      ['/access-url', async (printed) => expect(await (await fetch(printed)).text()).toBe(readme)],
      ['> $fn/_worker.js', (printed) => expect(printed).toContain(`\nevent: end\ndata: {}\n\n${readme}`)],
      [
        'date > dist',
        (printed) => expect(printed).toMatch(/"Running npm run build[^]*\nevent: end\ndata: {}\n\n\w{3} .+ \d{4}\n$/),
      ],
    ])

    const followed: string[] = []
    for (const block of blocksAt(platform)) {
      const promise = promiseOf(block)
      let printed = ''
      const run = async () => (printed = await shell.run(block, block.includes('# until Ctrl-C') ? promise : undefined))
      // The page says that these take a moment, so a reader asks again.
      if (block.includes('/runtime-logs')) await expect.poll(run, { interval: 1_000 }).toMatch(promise)
      else expect(await run()).toMatch(promise)
      expect(printed).not.toMatch(/^undefined$/m)
      for (const [text, followUp] of followUps) {
        if (!block.includes(text)) continue
        followed.push(text)
        await followUp(printed)
      }
    }
    expect(followed).toEqual([...followUps.keys()])
    // Its CPU time is counted once it has ended.
    await shell.close()
  })
})
