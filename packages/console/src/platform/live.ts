import { signal } from '@preact/signals'
import { needsSignIn, PlatformError } from '@platform/sdk'
import { heard } from './contact.ts'

/**
 * How what is shown is kept up to date. live: by a stream. catching-up: a stream is on its way, or between two connections. polling: other
 * windows hold all streams that this browser may have, so it is asked for. off: nothing on this page changes by itself.
 */
export type LiveState = 'off' | 'live' | 'catching-up' | 'polling'

export const liveState = signal<LiveState>('off')

/** What a stream needs of `follow` in the SDK. */
interface StreamOptions {
  signal: AbortSignal
  onState: (state: 'live' | 'waiting' | 'polling') => void
  onBeat: () => void
}

export interface LiveSource {
  /** Follows the stream, from where it was left. Resolves when it has ended for good. */
  follow(options: StreamOptions): Promise<void>
  /** Reads what is new instead. Resolves to whether there will be nothing more. */
  poll(signal: AbortSignal): Promise<boolean>
}

/** A browser has six connections to an origin over HTTP/1.1; two stay free for requests. */
const STREAMS = 4
const POLL_MS = 5_000
/** A window that is looked away from for less keeps its stream. */
const HIDDEN_MS = 30_000

const states = { live: 'live', waiting: 'catching-up', polling: 'polling' } as const

/**
 * Keeps a page up to date until the signal aborts or the source has ended. Holds one of four streams of this browser, or asks every 5 s. A
 * hidden page lets its stream go after 30 s and asks nothing until it is seen.
 *
 * Throws PlatformError where the platform refuses the source for good: signed out, denied, gone.
 */
export async function keepLive(source: LiveSource, signal: AbortSignal): Promise<void> {
  try {
    for (;;) {
      await visible(signal)
      liveState.value = 'catching-up'
      try {
        if (await withStream((isHeld) => (isHeld ? followWhileSeen(source, signal) : pollOnce(source, signal)))) return
      } catch (error) {
        if (signal.aborted || isFinal(error)) throw error
        // Anything else may succeed the next time.
        liveState.value = 'catching-up'
        await pause(signal)
      }
    }
  } catch (error) {
    if (!signal.aborted) throw error
  } finally {
    liveState.value = 'off'
  }
}

const isFinal = (error: unknown): boolean =>
  needsSignIn(error) || (error instanceof PlatformError && (error.status === 403 || error.status === 404))

/** Does the work under a free lock of a stream, or without one. */
async function withStream<T>(work: (isHeld: boolean) => Promise<T>): Promise<T> {
  for (let number = 1; number <= STREAMS; number++) {
    const outcome = await navigator.locks.request(`stream-${number}`, { ifAvailable: true }, async (lock) =>
      lock ? { result: await work(true) } : undefined,
    )
    if (outcome) return outcome.result
  }
  return work(false)
}

/** Resolves to whether the source has ended: false when the page was hidden for too long. */
async function followWhileSeen(source: LiveSource, signal: AbortSignal): Promise<boolean> {
  const looking = new AbortController()
  let timer: ReturnType<typeof setTimeout> | undefined
  const watch = (): void => {
    clearTimeout(timer)
    if (document.hidden) timer = setTimeout(() => looking.abort(), HIDDEN_MS)
  }
  document.addEventListener('visibilitychange', watch)
  watch()
  try {
    await source.follow({
      signal: AbortSignal.any([signal, looking.signal]),
      onState: (state) => (liveState.value = states[state]),
      onBeat: () => heard(200),
    })
    return true
  } catch (error) {
    if (looking.signal.aborted && !signal.aborted) return false
    throw error
  } finally {
    clearTimeout(timer)
    document.removeEventListener('visibilitychange', watch)
  }
}

async function pollOnce(source: LiveSource, signal: AbortSignal): Promise<boolean> {
  liveState.value = 'polling'
  if (await source.poll(signal)) return true
  await pause(signal)
  return false
}

const pause = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve, reject) => {
    const stop = (): void => {
      clearTimeout(timer)
      reject(signal.reason as Error)
    }
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', stop)
      resolve()
    }, POLL_MS)
    signal.addEventListener('abort', stop, { once: true })
    if (signal.aborted) stop()
  })

/** Resolves when the page is seen; rejects with the signal's reason. */
const visible = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve, reject) => {
    const check = (): void => {
      if (document.hidden && !signal.aborted) return
      document.removeEventListener('visibilitychange', check)
      signal.removeEventListener('abort', check)
      if (signal.aborted) reject(signal.reason as Error)
      else resolve()
    }
    document.addEventListener('visibilitychange', check)
    signal.addEventListener('abort', check)
    check()
  })
