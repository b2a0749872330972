interface Slots {
  hasSlot(): boolean
  /** Takes one piece of work and begins it. Returns whether there was one. */
  takeNext(): Promise<boolean>
  onError(error: unknown): void
}

/** Takes work whenever it is woken, one piece after the other, for as long as there is work and a slot for it. */
export function fillSlots({ hasSlot, takeNext, onError }: Slots): {
  wake(): void
  /** Takes nothing more; resolves when a look under way is over. Safe to repeat. */
  stop(): Promise<void>
} {
  let filling: Promise<void> = Promise.resolve()
  let isFilling = false
  let isAskedAgain = false
  const stopping = new AbortController()

  async function fill(): Promise<void> {
    isFilling = true
    try {
      do {
        isAskedAgain = false
        while (hasSlot() && !stopping.signal.aborted && (await takeNext()));
        // A wake-up may have come after the look that found nothing.
      } while (isAskedAgain && hasSlot() && !stopping.signal.aborted)
    } catch (error) {
      onError(error)
    } finally {
      isFilling = false
    }
  }

  return {
    wake() {
      isAskedAgain = true
      if (!isFilling && !stopping.signal.aborted) filling = fill()
    },
    async stop() {
      stopping.abort()
      await filling
    },
  }
}
