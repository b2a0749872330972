/** The items of a list, as many at most. */
export async function take<T>(items: AsyncIterable<T>, limit?: number): Promise<T[]> {
  const taken: T[] = []
  for await (const item of items) {
    taken.push(item)
    if (taken.length === limit) break
  }
  return taken
}

/** Those items for which it is true. */
export async function* filtered<T>(
  items: AsyncIterable<T>,
  isWanted: (item: T) => boolean | Promise<boolean>,
): AsyncGenerator<T, void, undefined> {
  for await (const item of items) if (await isWanted(item)) yield item
}
