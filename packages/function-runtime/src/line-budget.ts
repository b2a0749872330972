/** Limits how many lines a slot may print: a burst, and a rate per second. Counts the lines beyond that. */
export class LineBudget {
  readonly #perSecond: number
  readonly #atOnce: number
  readonly #now: () => number
  #left: number
  #at: number
  #dropped = 0

  /** now: in milliseconds, from any origin. */
  constructor(perSecond: number, atOnce: number, now: () => number = () => performance.now()) {
    this.#perSecond = perSecond
    this.#atOnce = atOnce
    this.#now = now
    this.#left = atOnce
    this.#at = now()
  }

  /** Takes room for one line. Returns false if there is none. */
  take(): boolean {
    if (this.#left < 1) this.#refill()
    if (this.#left < 1) {
      this.#dropped += 1
      return false
    }
    this.#left -= 1
    return true
  }

  /** Returns and resets the number of lines that had no room. */
  takeDropped(): number {
    const dropped = this.#dropped
    this.#dropped = 0
    return dropped
  }

  #refill(): void {
    const now = this.#now()
    this.#left = Math.min(this.#atOnce, this.#left + ((now - this.#at) / 1_000) * this.#perSecond)
    this.#at = now
  }
}
