import { type ChildProcess, fork } from 'node:child_process'
import { getCompileCacheDir } from 'node:module'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Unavailable } from '@platform/errors/api-error'
import { HASH_COST, type HashCost } from './hash-cost.ts'
import type { HashAnswer, HashRequest } from './hash-process.ts'

/** Hashes passwords with Argon2id. */
export interface Hashing {
  /** The cost of each hash that it creates. */
  cost: HashCost
  hash(password: string): Promise<string>
  verify(hash: string, password: string): Promise<boolean>
  /** Ends the process. Pending requests fail with Unavailable. */
  close(): void
}

const program = fileURLToPath(new URL('./hash-process.ts', import.meta.url))

interface Waiting {
  resolve(result: string | boolean): void
  reject(error: Error): void
}

/**
 * Hashes in a separate low-priority process: a flood of passwords slows itself down first (decision 13).
 *
 * Starts the process for the first password, and ends it after `idleMs` without one, since it takes some 50 MB and starts again in a
 * tenth of a second. It never outlives its service: the
 * channel between them closes even if the service is killed. It inherits none of the environment, which holds secrets.
 */
export function createHashing(idleMs: number): Hashing {
  let child: ChildProcess | undefined
  let lastId = 0
  let idle: NodeJS.Timeout | undefined
  const waiting = new Map<number, Waiting>()

  function start(): ChildProcess {
    const cache = getCompileCacheDir() // with Node's version at its end, which Node adds by itself
    const env = cache === undefined ? {} : { NODE_COMPILE_CACHE: dirname(cache) }
    const started = fork(program, { env, execArgv: [], stdio: ['ignore', 'ignore', 'inherit', 'ipc'] })
    const ended = (error?: Error) => {
      if (child !== started) return
      child = undefined
      for (const { reject } of waiting.values()) reject(new Unavailable(undefined, error ?? new Error('Hashing ended')))
      waiting.clear()
    }
    started.on('message', (answer: HashAnswer) => {
      const waitingPassword = waiting.get(answer.id)
      if ('result' in answer) waitingPassword?.resolve(answer.result)
      else waitingPassword?.reject(new Error(`Hashing failed: ${answer.failure}`))
      waiting.delete(answer.id)
      if (waiting.size > 0) return
      holdOpen(started, false)
      idle = setTimeout(end, idleMs).unref()
    })
    return started.on('error', ended).on('exit', () => ended())
  }

  function end(): void {
    clearTimeout(idle)
    if (child?.connected) child.disconnect()
    if (waiting.size === 0) child = undefined
  }

  const ask = (request: Omit<HashRequest, 'id'>): Promise<string | boolean> =>
    new Promise((resolve, reject) => {
      child ??= start()
      const id = ++lastId
      clearTimeout(idle)
      if (waiting.size === 0) holdOpen(child, true)
      waiting.set(id, { resolve, reject })
      child.send({ ...request, id } satisfies HashRequest)
    })

  return {
    cost: HASH_COST,
    hash: async (password) => (await ask({ password, hash: undefined })) as string,
    verify: async (hash, password) => (await ask({ password, hash })) as boolean,
    close: end,
  }
}

/** Lets a finished command exit, even if the hashing process still runs. */
function holdOpen(child: ChildProcess, isHeld: boolean): void {
  if (isHeld) {
    child.ref()
    child.channel?.ref()
  } else {
    child.unref()
    child.channel?.unref()
  }
}
