import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { once } from 'node:events'
import type { Readable, Writable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { onTestFinished } from 'vitest'
import { shellWord } from '../src/visible-text.ts'
import type { Terminal } from './terminal.ts'

export const mainPath = fileURLToPath(new URL('../src/main.ts', import.meta.url))

interface ProcessEnd {
  code: number | null
  signal: NodeJS.Signals | null
  stdout: string
  stderr: string
}

interface ProcessOptions {
  cwd?: string
  env?: Record<string, string | undefined>
  /** Whether something is typed. */
  hasInput?: boolean
  /** Default: the sources. */
  program?: string
}

interface Started {
  process: ChildProcessByStdio<Writable | null, Readable, Readable>
  /** Resolves to the first match of what it prints on either stream. Throws with all that it printed if it ends without. */
  print(pattern: RegExp): Promise<RegExpExecArray>
  end(): Promise<ProcessEnd>
}

/** Runs a program on somebody's machine. It ends with the test. */
export function startProgram(
  terminal: Pick<Terminal, 'env' | 'home'>,
  [command = '', ...args]: readonly string[],
  { cwd = terminal.home, env = {}, hasInput = false }: ProcessOptions = {},
): Started {
  const child = spawn(command, args, {
    cwd,
    env: { ...terminal.env, ...env },
    stdio: [hasInput ? 'pipe' : 'ignore', 'pipe', 'pipe'],
  }) as ChildProcessByStdio<Writable | null, Readable, Readable>
  const printed = { stdout: '', stderr: '' }
  for (const stream of ['stdout', 'stderr'] as const)
    child[stream].setEncoding('utf8').on('data', (text: string) => void (printed[stream] += text))
  let hasEnded = false
  const ended = once(child, 'close').then(() => (hasEnded = true))
  onTestFinished(async () => {
    child.kill('SIGKILL')
    await ended
  })
  return {
    process: child,
    async print(pattern) {
      for (;;) {
        const match = pattern.exec(printed.stdout) ?? pattern.exec(printed.stderr)
        if (match) return match
        if (hasEnded) throw new Error(`${command} ${args.join(' ')} ended.\n${printed.stdout}\n${printed.stderr}`)
        await Promise.race([once(child.stdout, 'data'), once(child.stderr, 'data'), ended])
      }
    },
    async end() {
      await ended
      return { code: child.exitCode, signal: child.signalCode, ...printed }
    },
  }
}

/** Runs the command line as a process of its own. */
export const startProcess = (
  terminal: Pick<Terminal, 'env' | 'home'>,
  argv: readonly string[],
  given?: ProcessOptions,
): Started => startProgram(terminal, [process.execPath, given?.program ?? mainPath, ...argv], given)

/** The same in a terminal of its own (script of util-linux), where stdout and stderr are one, and a \u0003 is a Ctrl-C. */
export const startInTerminal = (
  terminal: Pick<Terminal, 'env' | 'home'>,
  argv: readonly string[],
  given?: ProcessOptions,
): Started => {
  // A terminal that nobody has sized has no columns.
  const line = `stty cols 100; ${[process.execPath, given?.program ?? mainPath, ...argv].map(shellWord).join(' ')}`
  const env = { TERM: 'xterm-256color', ...given?.env }
  return startProgram(terminal, ['script', '--quiet', '--return', '--command', line, '/dev/null'], {
    ...given,
    env,
    hasInput: true,
  })
}
