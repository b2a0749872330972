import type * as V8 from 'node:v8'

/** A heap that stays above its budget this long is too large. */
export interface HeapBudget {
  bytes: number
  forMs: number
}

interface Look {
  at: number
  /** What each full collection since the look before left in the heap, in bytes. */
  left: number[]
  loop: ReturnType<typeof performance.eventLoopUtilization>
}

/** Garbage makes a full heap, too, which one collection empties. */
const COLLECTIONS_MIN = 2
/** A loop that is idle waits for something else than its garbage. */
const BUSY_SHARE_MIN = 0.9

/**
 * Returns what looks at the heap, to be called about every second. It answers undefined below the budget; above it the largest heap
 * since it was below, in bytes, and whether that is too long: for `forMs` every full collection has left more than the budget while
 * the loop was busy. V8 itself would go on like this for many seconds, up to its limit.
 */
export function watchHeap(budget: HeapBudget): () => { peakBytes: number; isTooLong: boolean } | undefined {
  let v8: typeof V8 | undefined
  let looks: Look[] = []
  let profiler: V8.GCProfiler | undefined
  let peakBytes = 0

  function reset(): void {
    looks = []
    peakBytes = 0
  }

  /** What each full collection since the last call has left; counts from now on. */
  function collections({ GCProfiler: Profiler }: typeof V8): number[] {
    const { statistics = [] } = profiler?.stop() ?? {}
    profiler = new Profiler()
    profiler.start()
    for (const { beforeGC } of statistics) peakBytes = Math.max(peakBytes, beforeGC.heapStatistics.usedHeapSize)
    return statistics
      .filter(({ gcType }) => gcType === 'MarkSweepCompact')
      .map(({ afterGC }) => afterGC.heapStatistics.usedHeapSize)
  }

  return () => {
    // At the first look, since a start should not wait for it.
    v8 ??= process.getBuiltinModule('node:v8')
    const used = v8.getHeapStatistics().used_heap_size
    if (used < budget.bytes) {
      reset()
      profiler?.stop()
      profiler = undefined
      return undefined
    }
    const left = collections(v8)
    if (left.some((bytes) => bytes < budget.bytes)) reset()
    peakBytes = Math.max(peakBytes, used)
    const now: Look = { at: performance.now(), left, loop: performance.eventLoopUtilization() }
    looks.push(now)
    // The latest that is old enough, and those after it.
    const first = looks.findLastIndex(({ at }) => now.at - at >= budget.forMs)
    if (first === -1) return { peakBytes, isTooLong: false }
    looks = looks.slice(first)
    const [before = now, ...since] = looks
    const isCollected = since.flatMap((look) => look.left).length >= COLLECTIONS_MIN
    const isBusy = performance.eventLoopUtilization(now.loop, before.loop).utilization >= BUSY_SHARE_MIN
    return { peakBytes, isTooLong: isCollected && isBusy }
  }
}
