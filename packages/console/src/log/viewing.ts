import { counted, number as figure } from '../words.ts'
import { firstAfter } from './bisect.ts'
import { LogSearch, nextError, nextOf, previousOf } from './find.ts'
import { isGap, type LogLine, type LogLines, type LogRow } from './lines.ts'
import { LogPlace } from './place.ts'

/** What the address says behind `#`, such as `#L123`. */
const LINE_HASH = /^#L([1-9]\d{0,8})$/

/** A line by its number, or by its time and id. */
type Expected = number | Pick<LogLine, 'at' | 'id'>

/**
 * One person's look at a log: where they stand, what they search for, which line they marked. Knows no page; calls `onChange` when
 * there is something else to draw, as often as it likes. Call close at the end.
 */
export class LogViewing<Line extends LogLine = LogLine> {
  readonly lines: LogLines<Line>
  /** What a line is called, such as `line` or `request`. */
  readonly noun: string
  readonly place: LogPlace
  readonly search: LogSearch
  /** The row of the match that was gone to. */
  current: number | undefined
  /** The line that the address names, or the error that was gone to. */
  marked: Line | undefined
  /** The line that is shown as a whole. */
  whole: { line: Line; number: number } | undefined
  /** What is to be brought into view sideways: the beginning of lines, or the match that was gone to. */
  reveal: 'beginning' | 'match' | undefined
  /** What a screen reader says: states, not lines. */
  news = ''

  readonly #onChange: () => void
  readonly #endings: (() => void)[]
  #arrangement: number
  /** The uppermost row in view, by which the place is found again after rows moved. */
  #anchor: { row: LogRow<Line>; index: number } | undefined
  /** What the address names and did not come yet. */
  #expected: Expected | undefined
  /** The line of the current match, by which its row is found again after rows moved. */
  #currentLine: LogRow<Line> | undefined
  /** The row at which the first match is looked for, until there is one. */
  #searchedFrom: number | undefined

  constructor(
    lines: LogLines<Line>,
    { isFollowing, noun = 'line', onChange }: { isFollowing: boolean; noun?: string; onChange: () => void },
  ) {
    this.lines = lines
    this.noun = noun
    this.#arrangement = lines.arrangement
    this.#onChange = onChange
    this.place = new LogPlace(isFollowing)
    this.search = new LogSearch(lines)
    this.#endings = [
      lines.version.subscribe(() => this.#takeLines()),
      this.search.version.subscribe(() => this.#takeMatches()),
    ]
  }

  close(): void {
    for (const end of this.#endings) end()
    this.search.close()
  }

  resize(height: number, rowHeight: number): void {
    this.place.resize(height, rowHeight)
    this.#settle()
  }

  /** isAtEnd: of what is drawn. */
  scrollTo(top: number, isAtEnd: boolean): void {
    if (this.place.scrollTo(top, isAtEnd)) this.#tell(this.place.isHeld ? 'Following is on hold.' : 'Following.')
    this.#settle()
  }

  /** The person is about to scroll upwards, or went elsewhere. */
  hold(): void {
    this.#expected = undefined
    this.place.hold()
  }

  follow(isFollowing: boolean): void {
    this.#expected = undefined
    this.place.follow(isFollowing)
    this.#tell(isFollowing ? 'Following.' : 'Not following.')
    this.#settle()
  }

  /** Goes to the line that an address names, once it is there; another address takes the mark away. */
  showHash(hash: string): void {
    const named = LINE_HASH.exec(hash)?.[1]
    this.showLine(named === undefined ? undefined : Number(named))
  }

  /** Goes to a line once it is there, and marks it; undefined takes the mark away. */
  showLine(line: Expected | undefined): void {
    this.#expected = line
    this.marked = undefined
    this.#showExpected()
    this.#settle()
  }

  mark(line: Line | undefined): void {
    this.#expected = undefined
    this.marked = line
    this.#settle()
  }

  showWhole(whole: { line: Line; number: number } | undefined): void {
    this.whole = whole
    this.#settle()
  }

  find(query: string): void {
    this.current = undefined
    this.#currentLine = undefined
    this.#searchedFrom = query === '' ? undefined : this.place.firstVisible
    this.#expected = undefined
    this.search.find(query)
  }

  goToNextMatch(): void {
    this.#goToMatch(nextOf(this.search.rows, this.current ?? this.place.firstVisible - 1))
  }

  goToPreviousMatch(): void {
    this.#goToMatch(previousOf(this.search.rows, this.current ?? this.place.firstVisible))
  }

  /** Goes to the next error behind the one that is marked, or below the upper edge. */
  goToNextError(): void {
    const from = this.marked && this.lines.rowOf(this.marked)
    const row = nextError(this.lines, from !== undefined && this.#isInView(from) ? from : this.place.firstVisible - 1)
    const line = row === undefined ? undefined : this.lines.row(row)
    if (row === undefined || !line || isGap(line)) return
    this.marked = line
    this.place.showRow(row)
    this.reveal = 'beginning'
    this.#tell(`Error, ${this.noun} ${figure(this.lines.numberOf(row))}.`)
    this.#settle()
  }

  /** Such as `3 of 120`; empty without a search. */
  get matchesText(): string {
    const { rows, isDone, pattern } = this.search
    if (!pattern) return ''
    if (rows.length === 0) return isDone ? 'No match' : 'Searching…'
    if (this.current === undefined) return counted(rows.length, this.noun)
    return `${figure((firstAfter(rows, this.current - 1)?.index ?? 0) + 1)} of ${figure(rows.length)}`
  }

  #isInView(row: number): boolean {
    const { top, height, rowHeight } = this.place
    return (row + 1) * rowHeight > top && row * rowHeight < top + height
  }

  #tell(news: string): void {
    this.news = news
  }

  #settle(): void {
    const index = this.place.firstVisible
    const row = this.lines.row(index)
    this.#anchor = row && { row, index }
    this.#onChange()
  }

  #takeLines(): void {
    this.place.grow(this.lines.size)
    if (this.#arrangement !== this.lines.arrangement) {
      this.#arrangement = this.lines.arrangement
      this.current = this.#currentLine && this.lines.rowOf(this.#currentLine)
      if (this.#anchor) this.place.shift(this.lines.rowOf(this.#anchor.row) - this.#anchor.index)
    }
    this.#showExpected()
    this.#settle()
  }

  #rowOfExpected(): number | undefined {
    const expected = this.#expected
    if (typeof expected !== 'object') return expected && this.lines.rowOfNumber(expected)
    const line = this.lines.lineOf(expected)
    return line && this.lines.rowOf(line)
  }

  #showExpected(): void {
    const row = this.#rowOfExpected()
    if (row === undefined || row >= this.place.size) return
    const line = this.lines.row(row)
    if (line && !isGap(line)) this.marked = line
    const number = typeof this.#expected === 'number' ? this.#expected : this.lines.numberOf(row)
    this.#tell(`At ${this.noun} ${figure(number)}.`)
    this.#expected = undefined
    this.place.showRow(row)
    this.reveal = 'beginning'
  }

  #takeMatches(): void {
    const from = this.#searchedFrom
    if (from !== undefined) {
      const { rows, isDone } = this.search
      const row = firstAfter(rows, from - 1)?.value ?? (isDone ? rows[0] : undefined)
      if (row !== undefined) this.#goToMatch(row)
      else if (isDone) this.#tell('No match.')
      if (row !== undefined || isDone) this.#searchedFrom = undefined
    }
    this.#onChange()
  }

  #goToMatch(row: number | undefined): void {
    if (row === undefined) return
    this.current = row
    this.reveal = 'match'
    const line = this.lines.row(row)
    this.#currentLine = line
    if (!this.#isInView(row)) this.place.showRow(row)
    else this.hold()
    if (line && !isGap(line)) this.#tell(`Match ${this.matchesText}, ${this.noun} ${figure(this.lines.numberOf(row))}.`)
    this.#settle()
  }
}
