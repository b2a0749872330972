import { Readable } from 'node:stream'

interface Sink {
  write(text: string): void
}

interface Call {
  words: readonly string[]
  env: Record<string, string | undefined>
  stdin: Readable
  stdout: Sink
  stderr: Sink
}

/** Calls a program as a function, without a process, and returns what it printed and its exit code. */
export async function callProgram(
  run: (call: Call) => Promise<number>,
  { words, env, stdin = '' }: { words: readonly string[]; env: Record<string, string | undefined>; stdin?: string },
): Promise<{ code: number; stdout: string; stderr: string }> {
  const [stdout, stderr]: [string[], string[]] = [[], []]
  const code = await run({
    words,
    env,
    stdin: Readable.from(stdin === '' ? [] : [stdin]),
    stdout: { write: (text) => void stdout.push(text) },
    stderr: { write: (text) => void stderr.push(text) },
  })
  return { code, stdout: stdout.join(''), stderr: stderr.join('') }
}
