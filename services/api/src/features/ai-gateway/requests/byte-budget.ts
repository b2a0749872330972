import { Unavailable } from '@platform/errors/api-error'

/** Bytes of request bodies that a process holds at once, and how many of them for one caller. */
export interface ByteBudget {
  /** Counts bytes that arrived. Throws Unavailable where they are one too many. */
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

/** Bytes of one body. */
export interface HeldBytes {
  /** Counts more of them. Throws Unavailable where they are too many; then none is held any more. */
  take(bytes: number): void
  /** Gives all of them back. Safe to repeat. */
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
        // At once: of bodies that are too many together, the others have room by then.
        release()
        throw error
      }
      held += bytes
    },
    release,
  }
}
