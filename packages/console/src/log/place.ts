/** Rows that are drawn above and below those in view. */
const OVERSCAN = 8
/** Browsers round what is scrolled; 2 px from the end is the end. */
export const END_PX = 2

/**
 * Where a viewport stands in a list of rows of one height, and whether it follows the end. Knows no page: all lengths are pixels, and
 * rows are counted from 0.
 *
 * Following is switched by the person alone. Who scrolls away from the end only holds it: `isHeld` until the end is reached again.
 */
export class LogPlace {
  rowHeight = 20
  height = 480
  top = 0
  size = 0
  isFollowing: boolean
  isHeld = false
  /** Set when the viewport is to stand elsewhere than it was scrolled to. */
  isMoved = true
  #seen = 0
  /** Where the viewport is known to be. */
  #scrolled = 0

  constructor(isFollowing: boolean) {
    this.isFollowing = isFollowing
  }

  get topMax(): number {
    return Math.max(0, this.size * this.rowHeight - this.height)
  }

  get isAtEnd(): boolean {
    return this.top >= this.topMax - END_PX
  }

  get isSticking(): boolean {
    return this.isFollowing && !this.isHeld
  }

  /** Rows that came since the end was last seen. */
  get newRows(): number {
    return this.isAtEnd ? 0 : this.size - this.#seen
  }

  /** The row at the upper edge. */
  get firstVisible(): number {
    return Math.min(Math.max(0, this.size - 1), Math.floor(this.top / this.rowHeight))
  }

  /** The rows to draw, the last one not included. */
  get drawn(): { first: number; end: number } {
    const first = Math.max(0, this.firstVisible - OVERSCAN)
    return { first, end: Math.min(this.size, Math.ceil((this.top + this.height) / this.rowHeight) + OVERSCAN) }
  }

  /** No more rows than that are drawn at this height. */
  get drawnMax(): number {
    return Math.ceil(this.height / this.rowHeight) + 1 + 2 * OVERSCAN
  }

  /** Takes in how many rows there are now. */
  grow(size: number): void {
    this.size = size
    if (this.isSticking) this.#moveTo(this.topMax)
    this.#look()
  }

  resize(height: number, rowHeight: number): void {
    const first = this.top / this.rowHeight
    this.height = height
    if (rowHeight !== this.rowHeight) {
      this.rowHeight = rowHeight
      this.#moveTo(first * rowHeight)
    }
    this.grow(this.size)
  }

  /**
   * The viewport was scrolled, by the person, by what `isMoved` asked for, or since it got higher. isAtEnd: of what is drawn, which
   * may be less than there is. Returns whether this began or ended a hold.
   */
  scrollTo(top: number, isAtEnd: boolean): boolean {
    const wasHeld = this.isHeld
    const isUp = top < this.#scrolled
    this.#scrolled = top
    // A move that is still to be made stands, unless the person goes up meanwhile.
    if (this.isMoved && (!isUp || isAtEnd)) return false
    this.top = top
    this.isMoved = false
    if (isAtEnd) this.isHeld = false
    else if (isUp && this.isFollowing) this.isHeld = true
    this.#look()
    return this.isHeld !== wasHeld
  }

  /** The viewport was put where `isMoved` asked for, as far as it goes. */
  moved(top: number): void {
    this.isMoved = false
    this.#scrolled = top
  }

  /** Keeps the place before it is scrolled: a step upwards that is about to be made. */
  hold(): void {
    if (!this.isSticking || this.topMax === 0) return
    this.isHeld = true
    this.isMoved = false
    this.top = this.#scrolled
  }

  /** Shows a row in the middle, and holds there. */
  showRow(row: number): void {
    this.#moveTo((row + 0.5) * this.rowHeight - this.height / 2)
    this.isHeld = this.isFollowing && !this.isAtEnd
    this.#look()
  }

  /** Rows came in above, or left if negative: what was in view stays there, and they do not count as new. */
  shift(rows: number): void {
    this.#seen = Math.min(this.size, Math.max(0, this.#seen + rows))
    if (rows !== 0 && !this.isSticking) this.#moveTo(this.top + rows * this.rowHeight)
  }

  follow(isFollowing: boolean): void {
    this.isFollowing = isFollowing
    this.isHeld = false
    this.grow(this.size)
  }

  #moveTo(top: number): void {
    this.top = Math.min(this.topMax, Math.max(0, top))
    this.isMoved = true
  }

  #look(): void {
    if (this.isAtEnd) this.#seen = this.size
  }
}
