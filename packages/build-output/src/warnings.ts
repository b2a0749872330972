const WARNINGS_MAX = 1_000

/**
 * Sentences for a build log. Keeps the first thousand and counts the rest: an archive of a few megabytes can have millions of
 * errors.
 */
export class Warnings {
  readonly #kept: string[] = []
  #more = 0

  add(sentence: string): void {
    if (this.#kept.length < WARNINGS_MAX) this.#kept.push(sentence)
    else this.#more++
  }

  /** Returns the kept warnings, plus a line with the number of further ones. */
  list(): string[] {
    return this.#more === 0 ? this.#kept : [...this.#kept, `And ${this.#more} more warnings.`]
  }
}
