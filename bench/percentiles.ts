/** The median and the 99th percentile of times in milliseconds; 0 where there are none. */
export function percentiles(times: readonly number[]): { p50Ms: number; p99Ms: number } {
  const sorted = times.toSorted((a, b) => a - b)
  const percentile = (share: number) => sorted[Math.floor(share * (sorted.length - 1))] ?? 0
  return { p50Ms: percentile(0.5), p99Ms: percentile(0.99) }
}
