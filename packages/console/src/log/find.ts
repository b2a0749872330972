import { type ReadonlySignal, signal } from '@preact/signals'
import { firstAfter } from './bisect.ts'
import { plainText } from './escapes.ts'
import { isGap, type LogLines } from './lines.ts'
import { eachRowInSlices, type Turns } from './slices.ts'

/** Start and end of a match in the plain text of a line, in UTF-16 code units. */
export type Range = readonly [start: number, end: number]

/** Finds a text as it is typed, in either case; undefined for an empty one. */
export const patternOf = (query: string): RegExp | undefined =>
  query === '' ? undefined : new RegExp(query.replace(/[\\^$.*+?()[\]{}|/]/g, String.raw`\$&`), 'iu')

/** The first matches in a plain text, at most matchesMax. */
export function rangesOf(text: string, pattern: RegExp, matchesMax: number): Range[] {
  const ranges: Range[] = []
  for (const { 0: found, index } of text.matchAll(new RegExp(pattern, 'giu'))) {
    if (ranges.length === matchesMax) break
    ranges.push([index, index + found.length])
  }
  return ranges
}

/** The next of ascending rows behind a row, or the first of all; undefined if there is none. */
export const nextOf = (rows: readonly number[], row: number): number | undefined =>
  firstAfter(rows, row)?.value ?? rows[0]

/** The one before a row, or the last of all; undefined if there is none. */
export const previousOf = (rows: readonly number[], row: number): number | undefined =>
  rows[(firstAfter(rows, row - 1)?.index ?? rows.length) - 1] ?? rows.at(-1)

/** The next line of level ERROR behind a row, or the first of all; undefined if the log has none. */
export const nextError = (lines: LogLines, row: number): number | undefined => nextOf(lines.errorRows, row)

/**
 * Searches all lines for a text, without holding up the page, and then those that come. One search at a time.
 * Call close at the end.
 */
export class LogSearch {
  readonly #lines: LogLines
  readonly #turns: Turns | undefined
  readonly #version = signal(0)
  readonly #unsubscribe: () => void
  #rows: number[] = []
  #pattern: RegExp | undefined
  #done = 0
  #arrangement = 0
  #run: AbortController | undefined

  constructor(lines: LogLines, turns?: Turns) {
    this.#lines = lines
    this.#turns = turns
    this.#unsubscribe = lines.version.subscribe(() => this.#goOn())
  }

  /** Raised as the search gets on. */
  get version(): ReadonlySignal<number> {
    return this.#version
  }

  /** Rows of the lines that match, ascending, as far as is known. */
  get rows(): readonly number[] {
    return this.#rows
  }

  get pattern(): RegExp | undefined {
    return this.#pattern
  }

  /** How many rows were searched; all once it is the size of the log. */
  get done(): number {
    return this.#done
  }

  get isDone(): boolean {
    return this.#pattern === undefined || this.#done >= this.#lines.size
  }

  /** Searches for another text; an empty one ends the search. */
  find(query: string): void {
    this.#pattern = patternOf(query)
    this.#restart()
    this.#goOn()
  }

  close(): void {
    this.#run?.abort()
    this.#unsubscribe()
  }

  #restart(): void {
    this.#run?.abort()
    this.#run = undefined
    this.#rows = []
    this.#done = 0
    this.#arrangement = this.#lines.arrangement
    this.#version.value++
  }

  #goOn(): void {
    if (this.#arrangement !== this.#lines.arrangement) this.#restart()
    const pattern = this.#pattern
    if (!pattern || this.#run || this.#done >= this.#lines.size) return
    const run = new AbortController()
    this.#run = run
    void eachRowInSlices(
      { from: this.#done, size: () => this.#lines.size, signal: run.signal },
      (row) => this.#searchRow(row, pattern),
      (next) => this.#endSlice(next, run),
      this.#turns,
    ).finally(() => {
      if (this.#run === run) this.#run = undefined
    })
  }

  #searchRow(index: number, pattern: RegExp): void {
    const row = this.#lines.row(index)
    if (row && !isGap(row) && pattern.test(plainText(row.text))) this.#rows.push(index)
  }

  #endSlice(next: number, run: AbortController): void {
    this.#done = next
    this.#version.value++
    // Rows moved under the search: it begins anew at the next version of the lines.
    if (this.#arrangement !== this.#lines.arrangement) run.abort()
  }
}
