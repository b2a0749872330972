/** Up to here each millisecond has a bucket of its own. */
const EXACT_MS = 32
/** Beyond, each bucket is this much longer than the one before: with rounding, what lies in it is told within 5 %. */
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
 * The duration in milliseconds that a share of requests stayed within, within 5 %. buckets: ascending, with how many requests each
 * has. null for no requests.
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
