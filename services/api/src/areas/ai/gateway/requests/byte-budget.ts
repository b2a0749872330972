import { Unavailable } from '@platform/errors/api-error'

/** Limits the bytes of request bodies that a process holds at once, in total and per caller. */
export interface ByteBudget {
  /** Counts received bytes. Throws Unavailable if they exceed a limit. */
  take(callerId: string, bytes: number): void
  give(callerId: string, bytes: number): void
}

/** max, perCallerMax: in bytes. */
export function createByteBudget(max: number, perCallerMax: number): ByteBudget {
  let held = 0
  const byCaller = new Map<string, number>()
  return {
    take(callerId, bytes) {
      const ofCaller = byCaller.get(callerId) ?? 0
      if (held + bytes > max || ofCaller + bytes > perCallerMax)
        throw new Unavailable('Too many large requests are under way; try again later')
      held += bytes
      byCaller.set(callerId, ofCaller + bytes)
    },
    give(callerId, bytes) {
      held -= bytes
      const left = (byCaller.get(callerId) ?? 0) - bytes
      if (left > 0) byCaller.set(callerId, left)
      else byCaller.delete(callerId)
    },
  }
}

/** The held bytes of one body. */
export interface HeldBytes {
  /** Counts more bytes. Throws Unavailable if they exceed a limit; then all of the body's bytes are released. */
  take(bytes: number): void
  /** Releases all of them. Safe to repeat. */
  release(): void
}

export function holdBytes(budget: ByteBudget, callerId: string): HeldBytes {
  let held = 0
  const release = () => {
    budget.give(callerId, held)
    held = 0
  }
  return {
    take(bytes) {
      try {
        budget.take(callerId, bytes)
      } catch (error) {
        // At once, so that of several bodies that exceed the limit together, the others have room.
        release()
        throw error
      }
      held += bytes
    },
    release,
  }
}
