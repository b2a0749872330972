import { vi } from 'vitest'

/** Runs what waits for half a minute after a moment, in this process, until `work` is over. It is given a way to wait as long. */
export async function hurryHalfMinutes(work: (halfMinute: () => Promise<void>) => Promise<void>): Promise<void> {
  const inEarnest = globalThis.setTimeout
  const hurried = (callback: (...args: unknown[]) => void, ms?: number, ...args: unknown[]) =>
    inEarnest(callback, ms === 30_000 ? 300 : ms, ...args)
  vi.stubGlobal('setTimeout', Object.assign(hurried, inEarnest))
  try {
    await work(() => new Promise((resolve) => setTimeout(resolve, 30_000)))
  } finally {
    vi.unstubAllGlobals()
  }
}
