import { argv, env, exit, stderr, stdin, stdout } from 'node:process'
import type { Readable } from 'node:stream'

/** What a program gets of its process. */
export interface Call {
  /** `argv` after the program. */
  words: readonly string[]
  env: Record<string, string | undefined>
  stdin: Readable
  stdout: Sink
  stderr: Sink
}

interface Sink {
  write(text: string): void
}

/**
 * Runs a program, which returns its exit code, as this process. With 0 the process ends once nothing is open any more; another
 * code ends it, since what a failed start or command has left open would keep it alive.
 */
export async function runProcess(run: (call: Call) => Promise<number>): Promise<void> {
  const code = await run({ words: argv.slice(2), env, stdin, stdout, stderr })
  if (code !== 0) exit(code)
}
