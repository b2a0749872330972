/** The median and the 99th percentile of times in milliseconds; 0 where there are none. */
export function percentiles(times: readonly number[]): { p50Ms: number; p99Ms: number } {
  const sorted = times.toSorted((a, b) => a - b)
  const at = (share: number) => sorted[Math.floor(share * (sorted.length - 1))] ?? 0
  return { p50Ms: at(0.5), p99Ms: at(0.99) }
}
