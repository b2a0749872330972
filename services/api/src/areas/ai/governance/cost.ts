import { countedUnits, type CountedUnit, type Price, type Rate } from './prices.ts'
import type { Usage } from '@platform/ai-protocols/usage'

/** A multiple of each unit's size, so that the parts add up as integers. */
const SCALE = 3_600_000_000n
const MICROSECONDS = 1_000_000
/** The largest amount that the database can store: nine billion dollars. */
const NANOS_MAX = 2n ** 63n - 1n

/** The units of a bucket: the first one that the price has. A bucket without any costs nothing. */
const unitsOf = {
  inputTokens: ['input_mtok'],
  cacheReadTokens: ['cache_read_mtok', 'input_mtok'],
  cacheWriteTokens: ['cache_write_mtok', 'input_mtok'],
  inputAudioTokens: ['input_audio_mtok', 'input_mtok'],
  outputTokens: ['output_mtok'],
  reasoningTokens: ['output_reasoning_mtok', 'output_mtok'],
  outputAudioTokens: ['output_audio_mtok', 'output_mtok'],
  audioSeconds: ['input_audio_hours', 'audio_hours'],
  characters: ['input_mchars'],
} as const satisfies Record<keyof Usage, readonly CountedUnit[]>
const buckets = Object.entries(unitsOf) as [keyof Usage, readonly CountedUnit[]][]

const nanosAt = ({ base, tiers }: Rate, totalInput: number): bigint =>
  tiers.findLast(({ above }) => totalInput > above)?.nanos ?? base

/** Returns the amount of a bucket, as an integer in the scale of `countedUnits`. */
function amountOf(bucket: keyof Usage, value: number, { audioSecondsMin }: Price): bigint {
  if (bucket !== 'audioSeconds') return BigInt(value)
  return BigInt(Math.round((value > 0 ? Math.max(value, audioSecondsMin) : 0) * MICROSECONDS))
}

/**
 * Returns the cost of an answered request, in nano-USD rounded up once: each bucket at its own rate, plus the price of the request
 * itself. Cached, audio and reasoning tokens without a rate cost the same as plain ones. The total input tokens select the tier.
 *
 * videoSeconds: length of a completed video.
 * usage: integers, except for seconds; at least 0.
 */
export function costNanos(price: Price, usage: Usage, videoSeconds = 0): bigint {
  const totalInput = usage.inputTokens + usage.cacheReadTokens + usage.cacheWriteTokens + usage.inputAudioTokens
  let scaled = 0n
  const charge = (unit: CountedUnit | undefined, amount: bigint): void => {
    const rate = unit === undefined ? undefined : price.rates[unit]
    if (unit !== undefined && rate !== undefined)
      scaled += amount * nanosAt(rate, totalInput) * (SCALE / countedUnits[unit])
  }
  for (const [bucket, units] of buckets)
    charge(
      units.find((unit) => price.rates[unit] !== undefined),
      amountOf(bucket, usage[bucket], price),
    )
  charge('output_video_seconds', BigInt(Math.round(videoSeconds * MICROSECONDS)))
  charge('requests_kcount', 1n)
  const nanos = (scaled + SCALE - 1n) / SCALE
  return nanos < NANOS_MAX ? nanos : NANOS_MAX
}
