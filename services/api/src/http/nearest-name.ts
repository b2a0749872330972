/** The number of characters to insert, delete, replace or swap with their neighbour to turn one text into the other. */
function changesBetween(from: string, to: string): number {
  let before: number[] = []
  let row = Array.from({ length: to.length + 1 }, (_, index) => index)
  for (let i = 1; i <= from.length; i++) {
    const next = [i]
    for (let j = 1; j <= to.length; j++) {
      const isSwapped = from[i - 1] === to[j - 2] && from[i - 2] === to[j - 1]
      next.push(
        Math.min(
          (row[j] ?? 0) + 1,
          (next[j - 1] ?? 0) + 1,
          (row[j - 1] ?? 0) + (from[i - 1] === to[j - 1] ? 0 : 1),
          isSwapped ? (before[j - 2] ?? 0) + 1 : Infinity,
        ),
      )
    }
    before = row
    row = next
  }
  return row[to.length] ?? 0
}

const letters = (name: string): string => name.toLowerCase().replaceAll(/[^a-z0-9]/g, '')

/**
 * Returns the name that was probably meant by a misspelt one: the nearest, if at most a third of it differs; else undefined. Ignores
 * case and separators.
 */
export function nearestName(misspelt: string, names: readonly string[]): string | undefined {
  const wanted = letters(misspelt)
  const [nearest] = names
    .map((name) => ({ name, changes: changesBetween(wanted, letters(name)) }))
    .filter(({ name, changes }) => changes <= Math.max(1, name.length / 3))
    .toSorted((a, b) => a.changes - b.changes)
  return nearest?.name
}
