#!/usr/bin/env node
import { spawn } from 'node:child_process'
import { realpathSync } from 'node:fs'
import { delimiter, join, relative } from 'node:path'
import process from 'node:process'
import { run } from './run.ts'
import { shellWord } from './visible-text.ts'
import type { World } from './world.ts'

const FIRST_ANSWER_MS = 4_000

/** How this program is typed to start it again, from the folder that the person is in. */
function nameOfProgram(cwd: string): string {
  const { PATH = '', npm_lifecycle_event: script } = process.env
  const [, path = 'platform'] = process.argv
  if (script === 'platform') return 'npm run --silent platform --'
  const real = (place: string) => {
    try {
      return realpathSync(place)
    } catch {
      return undefined
    }
  }
  // What npx adds to the PATH is gone after it.
  const isOnPath = PATH.split(delimiter).some(
    (folder) => !folder.includes('_npx') && real(join(folder, 'platform')) === real(path),
  )
  if (isOnPath) return 'platform'
  const below = relative(cwd, path)
  return `node ${shellWord(below.startsWith('..') ? path : below)}`
}

/** Opens nothing but pages, and no shell reads the address. */
function openAddress(url: string): void {
  const { protocol, href } = new URL(url)
  if (protocol !== 'http:' && protocol !== 'https:') return
  const opener = process.platform === 'darwin' ? 'open' : 'xdg-open'
  spawn(opener, [href], { stdio: 'ignore', detached: true })
    .on('error', () => {})
    .unref()
}

// Notes that nobody reads are no reason to stop.
process.stderr.on('error', () => {})

const cwd =
  process.env['npm_lifecycle_event'] === 'platform' ? (process.env['INIT_CWD'] ?? process.cwd()) : process.cwd()
const ending = new AbortController()
const world: World = {
  env: process.env,
  cwd,
  stdin: process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
  signal: ending.signal,
  program: nameOfProgram(cwd),
  fetch: (input, init) => fetch(input, init),
  openAddress,
  firstAnswerMs: FIRST_ANSWER_MS,
}

for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.on(signal, () => {
    if (world.onSignal) return world.onSignal(signal)
    // The second time somebody means it.
    if (ending.signal.aborted) process.exit(signal === 'SIGTERM' ? 143 : 130)
    ending.abort(signal)
  })
// The reader closed the pipe, as `head` does.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(0)
  throw error
})

async function start(): Promise<void> {
  process.exitCode = await run(process.argv.slice(2), world)
  // Nothing that is still open keeps the terminal: a connection that is kept, a stream that was left.
  process.stdout.write('', () => process.stderr.write('', () => process.exit()))
}
void start()
