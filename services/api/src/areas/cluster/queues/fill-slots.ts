interface Slots {
  hasSlot(): boolean
  /** Takes one job and starts it. Returns false if there was none. */
  takeNext(): Promise<boolean>
  onError(error: unknown): void
}

/** Whenever woken, takes jobs one after another, as long as there are jobs and free slots. */
export function fillSlots({ hasSlot, takeNext, onError }: Slots): {
  wake(): void
  /** Takes no more jobs; resolves when a look in progress is over. Safe to repeat. */
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
        // A wake-up may have arrived after the look that found nothing.
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
