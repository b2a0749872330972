import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { onTestFinished } from 'vitest'

const program = fileURLToPath(new URL('sign-in-process.ts', import.meta.url))

/** A process of its own on a token file (see sign-in-process.ts). It ends with the test. */
export function startSignInProcess(given: { path: string; baseUrl?: string }) {
  const child = spawn(process.execPath, [program, JSON.stringify(given)], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
  const said: string[] = []
  const waiting: ((line: string) => void)[] = []
  child.on('message', (line: string) => {
    const next = waiting.shift()
    if (next) next(line)
    else said.push(line)
  })
  const ended = once(child, 'exit')
  const kill = async () => {
    child.kill('SIGKILL')
    await ended
  }
  onTestFinished(kill)
  return {
    ask: (isNew: boolean) => void child.send({ isNew }),
    /** What it says next. */
    next: () => {
      const line = said.shift()
      return line === undefined ? new Promise<string>((resolve) => waiting.push(resolve)) : Promise.resolve(line)
    },
    kill,
  }
}
