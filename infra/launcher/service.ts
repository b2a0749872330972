import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { get } from 'node:http'
import type { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { StartProblem } from './start-problem.ts'
import { openTurningLog } from './turning-log.ts'

export type ServiceOptions = {
  name: string
  /** Relative to cwd. */
  script: string
  arguments: string[]
  cwd: string
  env: Record<string, string>
  logFile: string
}

export type Service = {
  pid: number | undefined
  script: string
  /** Resolves with one sentence on how it ended, whether or not it was stopped. */
  ended: Promise<string>
  /** Resolves once the URL answers 200. Throws StartProblem if the service ends first or takes over 90 s. */
  waitUntilAnswers(url: string): Promise<void>
  /** Gives it time to finish its work, then kills it. Safe to repeat. */
  stop(patienceMs: number): Promise<void>
  /** Kills it and its child processes at once. */
  kill(): void
}

// Starting creates much garbage that an idle process never collects; this also frees buffers of large files sooner. With it the
// API's RSS is some 50 MB smaller, and 100 MB smaller after 5 GB through any listener.
const youngHeap = '--max-semi-space-size=2'
// glibc caches freed memory per arena: two arenas instead of eight per core save 22 MB after 300 MB of uploads.
const arenas = { MALLOC_ARENA_MAX: '2' }
const pollMs = 50
/** Longer than a service tries one migration, so that its own sentence comes first. */
const startTimeoutMs = 90_000
/** How long a service that has ended waits for what others still print into its log. */
const lastLinesMs = 500
/** Enough of what a service printed to find why it ended. */
const tailBytes = 65_536

/**
 * Starts a service as a separate process, and writes what it prints into its log file. It has its own process group, so Ctrl-C
 * reaches only the launcher; and the pipe on its stdin closes when the launcher dies, however that happens, which tells it to end.
 */
export function startService({ name, script, cwd, env, logFile, ...options }: ServiceOptions): Service {
  const log = openTurningLog(logFile)
  const child = spawn(process.execPath, [youngHeap, script, ...options.arguments], {
    cwd,
    env: { ...arenas, ...env, PLATFORM_PARENT_PIPE: '1' },
    stdio: ['pipe', 'pipe', 'pipe'],
    detached: true,
  })
  // Its exit is reported separately.
  child.stdin.on('error', () => {})
  child.stdout.on('error', () => {})
  child.stderr.on('error', () => {})
  const tails = [child.stdout, child.stderr].map((stream) => passLines(stream, log.write))

  const ended = (async () => {
    const printed = once(child, 'close').catch(() => {}) // it could not be started
    const how = await waitForEnd(child)
    killGroup(child)
    await Promise.race([printed, sleep(lastLinesMs, undefined, { ref: false })])
    // Only the kernel's OOM killer ends a process like this without a message.
    const hint = how === 'SIGKILL' ? ' Perhaps the machine ran out of memory.' : ''
    return `The ${name} ended (${how}): ${essence(tails.flatMap((tail) => linesOf(tail())))}${hint} Its log is ${logFile}.`
  })()
  let isStopping = false

  return {
    pid: child.pid,
    script,
    ended,
    async waitUntilAnswers(url) {
      for (const deadline = Date.now() + startTimeoutMs; Date.now() < deadline; await sleep(pollMs)) {
        if (hasEnded(child)) throw new StartProblem(await ended)
        if (await answersOk(url)) return
      }
      throw new StartProblem(
        `The ${name} did not answer at ${url} within ${startTimeoutMs / 1000} s. Its log is ${logFile}.`,
      )
    },
    async stop(patienceMs) {
      if (!isStopping) child.kill('SIGTERM')
      isStopping = true
      const patience = setTimeout(() => killGroup(child), patienceMs)
      await ended
      clearTimeout(patience)
    },
    kill: () => killGroup(child),
  }
}

function hasEnded(child: ChildProcess): boolean {
  return child.exitCode !== null || child.signalCode !== null || child.pid === undefined
}

function waitForEnd(child: ChildProcess): Promise<string> {
  return new Promise((resolve) => {
    child.once('exit', (code, signal) => resolve(signal ?? `exit code ${code}`))
    child.once('error', (error) => resolve(error.message))
  })
}

/** Also kills processes that the service started and left behind, such as those of Functions. */
function killGroup(child: ChildProcess): void {
  try {
    if (child.pid) process.kill(-child.pid, 'SIGKILL')
  } catch {
    // the group is empty
  }
}

// node:http, since fetch would keep its whole client in memory for these few requests.
function answersOk(url: string): Promise<boolean> {
  return new Promise((resolve) => {
    const request = get(url, { agent: false, timeout: 2000 }, (response) => {
      response.resume()
      resolve(response.statusCode === 200)
    })
    request.on('timeout', () => request.destroy())
    request.on('error', () => resolve(false))
  })
}

/** Passes on what a program prints in whole lines, so that two streams can share a log. Returns what gives the last of them. */
function passLines(stream: Readable, take: (lines: Buffer) => void): () => Buffer {
  let begun = Buffer.alloc(0)
  let tail = Buffer.alloc(0)
  const pass = (lines: Buffer) => {
    take(lines)
    tail = Buffer.concat([tail, lines]).subarray(-tailBytes)
  }
  stream.on('data', (piece: Buffer) => {
    const text = Buffer.concat([begun, piece])
    const end = text.lastIndexOf('\n') + 1 || (text.length > tailBytes ? text.length : 0)
    if (end > 0) pass(text.subarray(0, end))
    begun = text.subarray(end)
  })
  stream.on('close', () => pass(begun))
  return () => tail
}

const linesOf = (text: Buffer): string[] =>
  text
    .toString('utf8')
    .split('\n')
    .filter((line) => line.trim() !== '')

/**
 * The sentence that explains why a program failed, from its last lines of output: the message of its last JSON log line of
 * level error, else the error that ended it, else its last line.
 */
export function essence(lines: string[]): string {
  const errorLevel = 50
  for (const line of lines.toReversed()) {
    const entry = parseEntry(line)
    if (entry && (entry.level ?? 0) >= errorLevel) return sentence(entry.err?.message ?? entry.msg ?? line)
  }
  const text = lines.filter((line) => !parseEntry(line))
  const thrown = text.findLast((line) => /^\s*(\[cause\]: )?(\w*Error|\w+Problem|\w+Refused)\b.*: /.test(line))
  return sentence((thrown ?? text.at(-1) ?? 'it wrote no reason').trim().replace(/^(\w*Error)(?: \[\w+\])?: /, ''))
}

function parseEntry(line: string): { level?: number; msg?: string; err?: { message?: string } } | undefined {
  if (!line.startsWith('{')) return undefined
  try {
    return JSON.parse(line) as { level?: number; msg?: string; err?: { message?: string } }
  } catch {
    return undefined
  }
}

function sentence(text: string): string {
  return /[.!?]$/.test(text) ? text : `${text}.`
}
