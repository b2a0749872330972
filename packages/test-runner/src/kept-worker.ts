import { ForksPoolWorker, type PoolOptions, type PoolWorker } from 'vitest/node'

/** The one process that all runs of a watch share. */
let kept: ForksPoolWorker | undefined

type Message = Parameters<ForksPoolWorker['send']>[0]
type Listener = (argument: unknown) => void

/**
 * A worker that outlives its run: under `npm run test:watch` the next run finds everything imported and compiled that has not
 * changed since. vitest itself starts a process for each run.
 */
class KeptWorker implements PoolWorker {
  readonly name = 'kept'
  readonly cacheFs = true
  readonly #inner: ForksPoolWorker
  readonly #listeners: [event: string, listener: Listener][] = []
  readonly #isNew: boolean

  constructor(options: PoolOptions) {
    this.#isNew = kept === undefined
    this.#inner = kept ??= new ForksPoolWorker(options)
  }

  on(event: string, listener: Listener): void {
    this.#listeners.push([event, listener])
    this.#inner.on(event, listener)
  }

  off(event: string, listener: Listener): void {
    this.#inner.off(event, listener)
  }

  /** To stop, the process would let go of vitest; what it was started with does not change while vitest runs. */
  send(message: Message): void {
    const { type } = message as { type?: string }
    if (type === 'stop') this.#answer('stopped')
    else if (type === 'start' && !this.#isNew) this.#answer('started')
    else this.#inner.send(message)
  }

  #answer(type: string): void {
    for (const [event, listener] of this.#listeners)
      if (event === 'message') queueMicrotask(() => listener({ type, __vitest_worker_response__: true }))
  }

  deserialize(data: unknown): unknown {
    return this.#inner.deserialize(data)
  }

  async start(): Promise<void> {
    if (this.#isNew) await this.#inner.start()
  }

  /** The process stays, and ends with vitest's own. */
  async stop(): Promise<void> {
    for (const [event, listener] of this.#listeners.splice(0)) this.#inner.off(event, listener)
  }
}

/** For `pool` of a vitest configuration. */
export const keptWorker = {
  name: 'kept',
  createPoolWorker: (options: PoolOptions): PoolWorker => new KeptWorker(options),
}
