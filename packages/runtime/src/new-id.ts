import { randomFillSync } from 'node:crypto'
import { v7 } from 'uuid'

/** Creates a UUIDv7: ids of one process ascend in creation order (D30). */
export const newId = (): string => v7()

/** Creates a UUIDv7 for the given time: it sorts among other ids by that time. */
export const newIdAt = (time: Date): string => v7({ msecs: time.getTime(), random: nextRandom() })

/** A time further back than this comes from another clock, or the clock was set back. */
const OUT_OF_ORDER_MS = 1_000

/**
 * Returns a generator of UUIDv7s for given times, each greater than the one before. A time up to a second before the previous
 * one counts as equal to it, so ids keep their creation order; one further back keeps its time.
 */
export function openRisingIds(): (time: Date) => string {
  let msecs = 0
  let seq = 0
  return (time) => {
    const ahead = time.getTime() - msecs
    if (ahead > 0 || ahead < -OUT_OF_ORDER_MS) {
      msecs = time.getTime()
      seq = 0
    } else seq++
    return v7({ msecs, seq, random: nextRandom() })
  }
}

const RANDOM_BYTES = 16
/** Random bytes for 512 ids: requesting them one id at a time costs more than the id itself. */
const pool = new Uint8Array(8_192)
let used = pool.length
function nextRandom(): Uint8Array {
  if (used >= pool.length) {
    randomFillSync(pool)
    used = 0
  }
  return pool.slice(used, (used += RANDOM_BYTES))
}

/** The lowest possible id of a time: a bound for id ranges that stand for time ranges. */
export function firstIdAt(time: Date): string {
  const hex = time.getTime().toString(16).padStart(12, '0')
  return `${hex.slice(0, 8)}-${hex.slice(8)}-0000-0000-000000000000`
}

/** The time encoded in an id. */
export const timeOfId = (id: string): Date => new Date(Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16))
