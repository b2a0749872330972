import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { findTestObstacle } from '@platform/sandbox/test-obstacle'
import { unless } from '@platform/test-runner/task-meta'
import { approveDevice } from '@platform/testkit/approve-device'
import { openShellSession, shells } from '@platform/testkit/shell-session'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { commandLineClient } from '../../idp/src/commands/init.ts'
import { createClient } from '../../idp/src/features/clients/clients.ts'

const page = await readFile(join(import.meta.dirname, '../../../docs/api-by-curl.md'), 'utf8')
const obstacle = findTestObstacle(['bwrap', 'setpriv', 'prlimit', 'bash', 'zsh', 'script', 'curl', 'zip'])

/** Commands, and what they print by the block below, where there is one. */
const blocks = [...page.matchAll(/^```sh\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?/gms)].map(
  ([, sh = '', text = '']) => ({
    commands: sh,
    promise: text,
  }),
)

/** Matches the lines that are promised, in their order, where `…` stands for anything. */
function matcherOf(promise: string): RegExp {
  const lines = [...promise.matchAll(/^.+$/gm)].map(([line]) => line.split('…').map(RegExp.escape).join('.*'))
  return new RegExp(lines.join('[^]*'))
}

/**
 * Replaces the addresses of `npm start` by those of a platform, and adds a suffix to the names that only one application or bucket of
 * a platform can have. Throws if the blocks lack one of the addresses, or have another.
 */
function blocksAt({ apiUrl, idpUrl, edgeUrl }: TestPlatform, suffix: string): typeof blocks {
  const ports = new Map(Object.entries({ 4000: apiUrl, 4001: idpUrl, 4002: edgeUrl }))
  const missing = new Set(ports.keys())
  const move = (text: string) =>
    text.replaceAll(/\b(?:my-shop|media)\b/g, `$&-${suffix}`).replaceAll(/(?<=localhost:)\d+/g, (port) => {
      const url = ports.get(port)
      if (url === undefined) throw new Error(`Nothing listens on ${port} of:\n${text}`)
      missing.delete(port)
      return new URL(url).port
    })
  const moved = blocks.map(({ commands, promise }) => ({ commands: move(commands), promise: move(promise) }))
  if (missing.size > 0) throw new Error(`No block names ${[...missing].join(', ')}`)
  return moved
}

test('every code block of docs/api-by-curl.md is one that the next test runs', () => {
  const fences = blocks.flatMap(({ promise }) => ['```sh', '```', ...(promise === '' ? [] : ['```text', '```'])])
  expect(page.match(/^ *(```|~~~).*/gm)).toEqual(fences)
  expect(blocks.length).toBeGreaterThan(12)
})

describe.each(shells)('pasting into %s', unless(obstacle), (name) => {
  test.each([
    ['a command that fails before the last', 'false\ntrue', /ended with 1, 0 in/],
    ['a command that is not there', 'nowhere\ntrue', /ended with 127, 0 in[^]*not found/],
    ['a variable that is undefined', 'x=undefined', /x="?undefined/],
    ['a variable that is not set', 'echo $nothing', /ended with 1 in/],
    ['a text that does not end', "echo 'it", /ended with more in/],
  ])('reports %s', async (_, block, report) => {
    const shell = await openShellSession(name, tmpdir())
    await expect(shell.paste(block)).rejects.toThrow(report)
    await shell.close()
  })
})

describe('docs/api-by-curl.md', unless(obstacle), () => {
  let platform: TestPlatform
  beforeAll(async () => {
    platform = await startPlatform({ hasWorker: true })
    await createClient(platform.idp, commandLineClient)
  })
  afterAll(() => platform.close())

  test.concurrent.for(shells)(
    'its blocks, pasted into %s one by one, print what the page says',
    async (name, { expect, onTestFinished }) => {
      const folder = await mkdtemp(join(tmpdir(), 'curl-guide-'))
      const shell = await openShellSession(name, folder)
      onTestFinished(async () => {
        await shell.close()
        await rm(folder, { recursive: true, maxRetries: 10, retryDelay: 100 })
      })
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
      for (const { commands, promise } of blocksAt(platform, name)) {
        const matcher = matcherOf(promise)
        const isEndless = commands.includes('/activity/stream')
        const paste = () => shell.paste(commands, isEndless ? { to: matcher, by: () => shell.interrupt() } : undefined)
        let printed = await paste()
        // Where a busy machine takes longer than the block waits for, a reader pastes it again.
        if (commands.startsWith('sleep') && !matcher.test(printed))
          await expect.poll(async () => (printed = await paste())).toMatch(matcher)
        expect(printed).toMatch(matcher)
        expect(printed).not.toMatch(/^undefined$/m)
        for (const [text, followUp] of followUps) {
          if (!commands.includes(text)) continue
          followed.push(text)
          await followUp(printed)
        }
      }
      expect(followed).toEqual([...followUps.keys()])
      // Its CPU time is counted once it has ended.
      await shell.close()
    },
  )
})
