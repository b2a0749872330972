/** Up to this, each millisecond has its own bucket. */
const EXACT_MS = 32
/** Beyond that, each bucket is longer than the previous one by this factor: with rounding, durations are accurate within 5 %. */
const GROWTH = 1.06
const BUCKET_MAX = 240

/** The bucket of a duration in milliseconds. */
export const bucketOf = (ms: number): number =>
  ms <= EXACT_MS
    ? Math.max(0, Math.floor(ms))
    : Math.min(BUCKET_MAX, EXACT_MS + 1 + Math.floor(Math.log(ms / EXACT_MS) / Math.log(GROWTH)))

/** The middle of a bucket, in whole milliseconds. */
const middleOf = (bucket: number): number =>
  bucket <= EXACT_MS ? bucket : Math.round(EXACT_MS * GROWTH ** (bucket - EXACT_MS - 0.5))

/**
 * The percentile of durations in milliseconds, within 5 %. buckets: ascending, each with its number of requests. share: 0 to 1.
 * Returns null without requests.
 */
export function percentileOf(buckets: readonly { bucket: number; requests: number }[], share: number): number | null {
  const total = buckets.reduce((sum, { requests }) => sum + requests, 0)
  let left = Math.max(1, Math.ceil(total * share))
  for (const { bucket, requests } of buckets) {
    left -= requests
    if (left <= 0) return middleOf(bucket)
  }
  return null
}
