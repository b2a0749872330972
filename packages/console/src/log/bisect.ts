/**
 * The first index from 0 to length − 1 at which isPast holds, or length; isPast holds for every index behind one for which it holds.
 * Asks at most log₂ length + 1 times.
 */
export function firstIndex(length: number, isPast: (index: number) => boolean): number {
  let [low, high] = [0, length]
  while (low < high) {
    const middle = (low + high) >>> 1
    if (isPast(middle)) high = middle
    else low = middle + 1
  }
  return low
}

/** The first of ascending numbers that is greater than a number, and its index; undefined if there is none. */
export function firstAfter(ascending: readonly number[], bound: number): { value: number; index: number } | undefined {
  const index = firstIndex(ascending.length, (at) => (ascending[at] as number) > bound)
  const value = ascending[index]
  return value === undefined ? undefined : { value, index }
}
