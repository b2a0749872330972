import { type ReadonlySignal, signal } from '@preact/signals'
import { firstIndex } from './bisect.ts'

export interface LogLine {
  id: string
  /** ISO 8601 in UTC, as `createdAt` is sent: the order of the texts is the order of the times. */
  at: string
  level: 'INFO' | 'WARN' | 'ERROR' | 'DEBUG'
  /** As it was written, escape sequences included. */
  text: string
}

/** Stands where lines were left out, behind the line whose `at` and `id` it has; both are empty at the very beginning. */
export interface LogGap {
  /** How many lines, at least 1. */
  gap: number
  at: string
  id: string
}

export type LogRow<Line extends LogLine = LogLine> = Line | LogGap

export const isGap = (row: LogRow): row is LogGap => 'gap' in row

const compare = (one: LogRow, other: LogRow): number =>
  one.at === other.at ? Number(one.id > other.id) - Number(one.id < other.id) : one.at < other.at ? -1 : 1

/**
 * The lines of a log, in ascending order of `at`, then `id`. They may be appended in any order and more than once: a page and the
 * stream that goes on after it overlap.
 *
 * Rows are counted from 0. A line's number is counted from 1 and includes the lines that a gap before it stands for.
 */
export class LogLines<Line extends LogLine = LogLine> {
  #rows: LogRow<Line>[] = []
  #errorRows: number[] = []
  /** Of each gap, its row and by how much numbers behind it are ahead of rows. */
  #gaps: { row: number; ahead: number }[] = []
  #last: Line | undefined
  #arrangement = 0
  #isRaising = false
  readonly #version = signal(0)
  readonly #nextFrame: (raise: () => void) => void

  /** nextFrame: calls its argument once, later. Default: before the next paint, so not while the tab is hidden. */
  constructor(nextFrame: (raise: () => void) => void = (raise) => requestAnimationFrame(raise)) {
    this.#nextFrame = nextFrame
  }

  /** Raised after a change, at most once a frame. */
  get version(): ReadonlySignal<number> {
    return this.#version
  }

  /** Raised at once whenever rows other than new last ones were added: what is known by its row has moved. */
  get arrangement(): number {
    return this.#arrangement
  }

  /** Rows, gaps included. */
  get size(): number {
    return this.#rows.length
  }

  /** Rows of lines of level ERROR, ascending. */
  get errorRows(): readonly number[] {
    return this.#errorRows
  }

  /** The last line's id, after which a stream goes on. */
  get lastId(): string | undefined {
    return this.#last?.id
  }

  /** The last line's time, after which pages go on. */
  get lastAt(): string | undefined {
    return this.#last?.at
  }

  /** The first line. */
  get first(): Line | undefined {
    return this.#rows.find((row): row is Line => !isGap(row))
  }

  row(index: number): LogRow<Line> | undefined {
    return this.#rows[index]
  }

  /** How many lines there are at a time or later. */
  countSince(at: string): number {
    let count = 0
    for (let index = this.#placeOf({ at, id: '', gap: 0 }); index < this.#rows.length; index++)
      if (!isGap(this.#rows[index] as LogRow)) count++
    return count
  }

  /** The line with an id and time; undefined if it is not here. */
  lineOf(place: Pick<LogLine, 'at' | 'id'>): Line | undefined {
    const row = this.#rows[this.#placeOf({ ...place, gap: 0 })]
    return row && !isGap(row) && row.id === place.id && row.at === place.at ? row : undefined
  }

  /** The row that a line or gap has now. */
  rowOf(row: LogRow): number {
    const index = this.#placeOf(row)
    const found = this.#rows[index]
    return isGap(row) && found && !isGap(found) && compare(found, row) === 0 ? index + 1 : index
  }

  /** The number of the line in a row; of a gap, the number of the first line that is left out. */
  numberOf(index: number): number {
    const behind = firstIndex(this.#gaps.length, (at) => (this.#gaps[at]?.row ?? 0) >= index)
    return index + 1 + (this.#gaps[behind - 1]?.ahead ?? 0)
  }

  /** The row with the line of a number, or with the gap that it fell in; undefined if the log does not go that far. */
  rowOfNumber(number: number): number | undefined {
    const index = firstIndex(this.#rows.length, (at) => this.numberOf(at) > number) - 1
    const row = this.#rows[index]
    return row && number < this.numberOf(index) + (isGap(row) ? row.gap : 1) ? index : undefined
  }

  append(lines: readonly Line[]): void {
    const late: Line[] = []
    const before = this.#rows.length
    for (const line of lines) {
      if (!this.#last || compare(line, this.#last) > 0) this.#push(line)
      else if (!this.#holds(line)) late.push(line)
    }
    if (late.length > 0) this.#merge(late)
    if (this.#rows.length > before) this.#raise()
  }

  /**
   * Says that lines behind the last one, or behind another, were left out. Lines that come after all are taken off the count. after: a line
   * that is here.
   */
  addGap(count: number, after: Pick<LogLine, 'at' | 'id'> | undefined = this.#last): void {
    if (count < 1) return
    const { at, id } = after ?? { at: '', id: '' }
    const from = after ? this.#placeOf({ at, id, gap: 0 }) + 1 : 0
    const known = this.#rows[from]
    const knownCount = known && isGap(known) ? known.gap : 0
    const behind = this.#rows.slice(knownCount > 0 ? from + 1 : from)
    this.#rebuildFrom(from, [{ gap: knownCount + count, at, id }, ...behind])
    if (behind.length > 0) this.#arrangement++
    this.#raise()
  }

  /** The first row that is not before a row in the order. */
  #placeOf(row: LogRow): number {
    return firstIndex(this.#rows.length, (at) => compare(this.#rows[at] as LogRow, row) >= 0)
  }

  /** Forgets the first rows beyond a number of rows. */
  keepLast(sizeMax: number): void {
    if (this.#rows.length <= sizeMax) return
    this.#rebuildFrom(0, this.#rows.slice(-sizeMax))
    this.#arrangement++
    this.#raise()
  }

  #holds(line: Line): boolean {
    const found = this.#rows[this.#placeOf(line)]
    return found !== undefined && !isGap(found) && compare(found, line) === 0
  }

  #push(line: Line): void {
    if (line.level === 'ERROR') this.#errorRows.push(this.#rows.length)
    this.#rows.push(line)
    this.#last = line
  }

  #pushGap(gap: LogGap): void {
    this.#gaps.push({ row: this.#rows.length, ahead: (this.#gaps.at(-1)?.ahead ?? 0) + gap.gap - 1 })
    this.#rows.push(gap)
  }

  /** late: lines that the log does not hold and that do not all belong behind its last one; may have doubles among them. */
  #merge(late: Line[]): void {
    late.sort(compare)
    let from = this.#placeOf(late[0] as Line)
    const before = this.#rows[from - 1]
    // The first late line may be one of those that a gap before it stands for.
    if (before && isGap(before)) from--
    this.#rebuildFrom(from, mergeRows(this.#rows.slice(from), late))
    this.#arrangement++
  }

  /** Puts other rows in the place of a row and all behind it. */
  #rebuildFrom(from: number, rows: readonly LogRow<Line>[]): void {
    this.#rows.length = from
    this.#errorRows.length = firstIndex(this.#errorRows.length, (at) => (this.#errorRows[at] as number) >= from)
    this.#gaps.length = firstIndex(this.#gaps.length, (at) => (this.#gaps[at]?.row ?? 0) >= from)
    for (const row of rows) {
      if (isGap(row)) this.#pushGap(row)
      else this.#push(row)
    }
  }

  #raise(): void {
    if (this.#isRaising) return
    this.#isRaising = true
    this.#nextFrame(() => {
      this.#isRaising = false
      this.#version.value++
    })
  }
}

/**
 * Both lists are in order. A late line between a gap and the row behind it is one of those that were left out there; gaps are filled
 * from their beginnings, so the rest of the gap comes behind the line.
 */
function mergeRows<Line extends LogLine>(rows: readonly LogRow<Line>[], late: readonly Line[]): LogRow<Line>[] {
  const merged: LogRow<Line>[] = []
  let next = 0
  let gap: LogGap | undefined
  const takeLateBefore = (end: number): void => {
    for (; next < end; next++) {
      const line = late[next] as Line
      const last = merged.at(-1)
      if (last && compare(last, line) === 0) continue
      merged.push(line)
      gap &&= { gap: gap.gap - 1, at: line.at, id: line.id }
    }
    if (gap && gap.gap > 0) merged.push(gap)
  }
  for (const row of rows) {
    takeLateBefore(next === late.length ? next : firstIndex(late.length, (at) => compare(late[at] as Line, row) > 0))
    gap = isGap(row) ? row : undefined
    if (!isGap(row)) merged.push(row)
  }
  takeLateBefore(late.length)
  return merged
}
