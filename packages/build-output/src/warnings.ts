const WARNINGS_MAX = 1_000

/**
 * Sentences for a build log. The first thousand are kept and the rest is counted: an archive of a few megabytes can be wrong in
 * millions of places.
 */
export class Warnings {
  readonly #kept: string[] = []
  #more = 0

  add(sentence: string): void {
    if (this.#kept.length < WARNINGS_MAX) this.#kept.push(sentence)
    else this.#more++
  }

  /** All that were kept, and how many there were besides. */
  list(): string[] {
    return this.#more === 0 ? this.#kept : [...this.#kept, `And ${this.#more} more warnings.`]
  }
}
