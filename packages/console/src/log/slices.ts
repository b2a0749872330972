/** Half a frame at 60 a second: the other half is the browser's. */
const SLICE_MS = 8
/** Between two looks at the clock, which takes longer than a short row. */
const ROWS_BETWEEN_LOOKS = 32

/** Where the work of slices gets its time from. */
export interface Turns {
  now(): number
  /** Resolves when the browser has had a turn. */
  rest(): Promise<void>
}

const browserTurns: Turns = {
  now: () => performance.now(),
  rest: () => new Promise((resolve) => setTimeout(resolve)),
}

/**
 * Calls work for each row from `from` on, in slices of 8 ms with a turn of the browser between them. size is asked anew, so rows that
 * come meanwhile take part. A row is never divided. Stops once the signal is aborted. onSlice: called at the end of each slice with
 * the first row that is not done.
 */
export async function eachRowInSlices(
  { from, size, signal }: { from: number; size: () => number; signal?: AbortSignal },
  work: (row: number) => void,
  onSlice?: (next: number) => void,
  turns: Turns = browserTurns,
): Promise<void> {
  let next = from
  while (next < size()) {
    const until = turns.now() + SLICE_MS
    do {
      const pause = Math.min(size(), next + ROWS_BETWEEN_LOOKS)
      while (next < pause) work(next++)
    } while (next < size() && turns.now() < until)
    onSlice?.(next)
    if (next < size()) await turns.rest()
    if (signal?.aborted) return
  }
}
