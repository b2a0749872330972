/** How many lines a slot may print: some at once, and so many a second. What is beyond is counted. */
export class LineBudget {
  readonly #perSecond: number
  readonly #atOnce: number
  readonly #now: () => number
  #left: number
  #at: number
  #dropped = 0

  /** now: in milliseconds, from any start. */
  constructor(perSecond: number, atOnce: number, now: () => number = () => performance.now()) {
    this.#perSecond = perSecond
    this.#atOnce = atOnce
    this.#now = now
    this.#left = atOnce
    this.#at = now()
  }

  /** Whether there is room for a line, which is taken then. */
  take(): boolean {
    if (this.#left < 1) this.#refill()
    if (this.#left < 1) {
      this.#dropped += 1
      return false
    }
    this.#left -= 1
    return true
  }

  /** The lines that had no room since the last call. */
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
