import { randomFillSync } from 'node:crypto'
import { v7 } from 'uuid'

/** A UUIDv7: ids of one process ascend in the order they were made, so id order is creation order (D30). */
export const newId = (): string => v7()

/** A UUIDv7 of a moment of one's choice: its place among other ids is its place in time. */
export const newIdAt = (time: Date): string => v7({ msecs: time.getTime(), random: nextRandom() })

/** A moment that lies further back than this is one of another clock, or of one that was set. */
const OUT_OF_ORDER_MS = 1_000

/**
 * UUIDv7s of moments that are given, each greater than the one before it. A moment up to a second before the last one counts as that,
 * so ids keep the order in which they were asked for; one further back keeps its time.
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
/** Random bytes for 512 ids: asking for them costs more than making the id. */
const pool = new Uint8Array(8_192)
let used = pool.length
function nextRandom(): Uint8Array {
  if (used >= pool.length) {
    randomFillSync(pool)
    used = 0
  }
  return pool.slice(used, (used += RANDOM_BYTES))
}

/** The lowest of the ids of a moment and after: a bound for ranges of ids that are ranges of time. */
export function firstIdAt(time: Date): string {
  const hex = time.getTime().toString(16).padStart(12, '0')
  return `${hex.slice(0, 8)}-${hex.slice(8)}-0000-0000-000000000000`
}

/** The moment of an id. */
export const timeOfId = (id: string): Date => new Date(Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16))
