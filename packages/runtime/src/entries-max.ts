/**
 * Limits an LRUCache to a number of entries: `new LRUCache({ ...entriesMax(20_000) })`. For its own `max`, lru-cache lays out tables of
 * that length at once, 30 to 60 bytes an entry; with sizes, they grow as entries come.
 */
export const entriesMax = (count: number): { maxSize: number; sizeCalculation: () => number } => ({
  maxSize: count,
  sizeCalculation: () => 1,
})
