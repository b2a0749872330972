import { readFileSync } from 'node:fs'
import { entriesMax } from '@platform/runtime/entries-max'
import { LRUCache } from 'lru-cache'
import { z } from 'zod'

/** Price units that usage.ts counts, and the size of each in tokens, characters, requests or microseconds. */
export const countedUnits = {
  input_mtok: 1_000_000n,
  cache_read_mtok: 1_000_000n,
  cache_write_mtok: 1_000_000n,
  input_audio_mtok: 1_000_000n,
  output_mtok: 1_000_000n,
  output_reasoning_mtok: 1_000_000n,
  output_audio_mtok: 1_000_000n,
  input_mchars: 1_000_000n,
  requests_kcount: 1_000n,
  audio_hours: 3_600_000_000n,
  input_audio_hours: 3_600_000_000n,
  output_video_seconds: 1_000_000n,
} as const
export type CountedUnit = keyof typeof countedUnits

/** Price units that nothing here counts. Usage in them is not charged if it is let through. */
const uncountedUnits = [
  'cache_audio_read_mtok',
  'cache_image_read_mtok',
  'cache_write_1h_mtok',
  'input_annotated_document_kpages',
  'input_document_kpages',
  'input_image_mtok',
  'input_text_messages_kcount',
  'input_video_mtok',
  'output_citation_mtok',
  'output_image_mtok',
  'output_video_mtok',
  'storage_searches_kcount',
  'web_searches_kcount',
] as const

/** Uncounted units that a request uses only if a member of its own asks for it. */
const optionalUnits: ReadonlySet<string> = new Set<(typeof uncountedUnits)[number]>([
  'cache_audio_read_mtok',
  'cache_image_read_mtok',
  'cache_write_1h_mtok',
  'storage_searches_kcount',
  'web_searches_kcount',
])

const counted = Object.keys(countedUnits) as CountedUnit[]

/** Nano-USD (10⁻⁹ of a dollar) per unit. */
const nanos = z.int().min(0)
/** A tier replaces the base for the whole request if its input tokens, including cached ones and audio, exceed `above`. */
const fileRate = z.union([
  nanos,
  z.strictObject({ base: nanos, tiers: z.array(z.strictObject({ above: z.int().min(0), nanos })) }),
])
const timeOfDay = z.string().regex(/^([01]\d|2[0-3]):[0-5]\d:[0-5]\dZ$/)
const conditions = {
  /** Valid from the start of this UTC day. */
  from: z.iso.date().optional(),
  /** Valid daily between two UTC times; spans midnight if the first is later. */
  daily: z.strictObject({ from: timeOfDay, to: timeOfDay }).optional(),
}

/** The models of a price. Models are compared in lower case. */
type Match =
  | { equals: string }
  | { starts_with: string }
  | { ends_with: string }
  | { contains: string }
  | { regex: string }
  | { or: Match[] }
  | { and: Match[] }
const match: z.ZodType<Match> = z.lazy(() =>
  z.union([
    z.strictObject({ equals: z.string() }),
    z.strictObject({ starts_with: z.string() }),
    z.strictObject({ ends_with: z.string() }),
    z.strictObject({ contains: z.string() }),
    z.strictObject({ regex: z.string() }),
    z.strictObject({ or: z.array(match) }),
    z.strictObject({ and: z.array(match) }),
  ]),
)

/** The contents of prices.json (`npm run prices`). */
export const PriceFile = z.strictObject({
  priceVersion: z.string(),
  /** The publication date of the prices. */
  pricesOf: z.iso.date(),
  providers: z.record(
    z.string(),
    z.strictObject({
      /** Providers whose models this one also offers, at their prices. */
      fallbacks: z.array(z.string()),
      /** The first match wins. */
      models: z.array(
        z.strictObject({
          match,
          /** Of several valid prices the last one wins; if none is valid, the first. */
          prices: z
            .array(
              z.strictObject({
                ...conditions,
                rates: z.partialRecord(z.enum([...counted, ...uncountedUnits]), fileRate),
              }),
            )
            .min(1),
          /** Shorter audio is charged as this length. */
          audioSecondsMin: z.number().optional(),
          /** In tokens. */
          contextWindow: z.int().min(1).optional(),
        }),
      ),
    }),
  ),
})
type PriceFile = z.output<typeof PriceFile>

/** Price of one unit in nano-USD. The last tier whose `above` is less than the request's input tokens replaces `base`. */
export interface Rate {
  base: bigint
  /** In ascending order. */
  tiers: readonly { above: number; nanos: bigint }[]
}

/** The price of a model at a time. A rate of 0 is free; a missing one falls back as described in cost.ts. */
export interface Price {
  /** The source: the version of the prices, or `operator`. */
  version: string
  rates: Readonly<Partial<Record<CountedUnit, Rate>>>
  /** Shorter audio is charged as this length. */
  audioSecondsMin: number
  /** True if it has rates in uncounted units that any request may use: the maximum cost is unknown. */
  isPartial: boolean
}

export interface Prices {
  /** For the log and for events. */
  readonly version: string
  /**
   * Returns the price of a provider's model at a time; undefined if no price in counted units is known.
   *
   * providerId: as genai-prices names providers, for example `openai`; upstreamModel: as the provider names it.
   */
  priceOf(providerId: string, upstreamModel: string, time: Date): Price | undefined
  /** Returns the published context window of a provider's model in tokens, which may be rounded; undefined if unknown. */
  contextWindowOf(providerId: string, upstreamModel: string): number | undefined
  /** Returns the age of the prices in whole days. */
  ageDays(now: Date): number
}

const NANOS_PER_USD = 1e9
/** Maximum error of a decimal fraction in binary, in nano-dollars. */
const FRACTION_NOISE = 1e-3
/** Per unit; far above any real price. */
const USD_MAX = 1e6
const DAY_MS = 86_400_000
const MATCHES_KEPT = 1_000

/** Converts dollars to nano-dollars, rounded up: nothing with a price becomes free. Corrects binary noise: 0.0375 is 37,500,000. */
export function nanosOf(usd: number): number {
  const nanos = usd * NANOS_PER_USD
  const rounded = Math.round(nanos)
  return rounded > 0 && Math.abs(nanos - rounded) < FRACTION_NOISE ? rounded : Math.ceil(nanos)
}

const usd = z.number().min(0).max(USD_MAX)

/**
 * An operator's own price for a route, in US dollars per unit: a million tokens (`_mtok`) or characters (`_mchars`), a thousand
 * requests (`_kcount`), an hour of audio. It replaces the known price as a whole. An explicit 0 is free.
 */
export const PriceOverride = z
  .strictObject(
    Object.fromEntries(counted.map((unit) => [unit, usd.optional()])) as Record<CountedUnit, z.ZodOptional<typeof usd>>,
  )
  .refine((price) => Object.keys(price).length > 0, 'Expected a price for at least one unit')
export type PriceOverride = z.output<typeof PriceOverride>

/** Returns the price that an operator set. */
export function priceFrom(override: PriceOverride): Price {
  const rates: Partial<Record<CountedUnit, Rate>> = {}
  for (const unit of counted) {
    const value = override[unit]
    if (value !== undefined) rates[unit] = { base: BigInt(nanosOf(value)), tiers: [] }
  }
  return { version: 'operator', rates, audioSecondsMin: 0, isPartial: false }
}

function matcherOf(clause: Match): (model: string) => boolean {
  if ('equals' in clause) return (model) => model === clause.equals.toLowerCase()
  if ('starts_with' in clause) return (model) => model.startsWith(clause.starts_with.toLowerCase())
  if ('ends_with' in clause) return (model) => model.endsWith(clause.ends_with.toLowerCase())
  if ('contains' in clause) return (model) => model.includes(clause.contains.toLowerCase())
  if ('regex' in clause) {
    const pattern = new RegExp(clause.regex)
    return (model) => pattern.test(model)
  }
  if ('or' in clause) {
    const any = clause.or.map(matcherOf)
    return (model) => any.some((matches) => matches(model))
  }
  const all = clause.and.map(matcherOf)
  return (model) => all.every((matches) => matches(model))
}

type FileModel = PriceFile['providers'][string]['models'][number]
type FilePrice = FileModel['prices'][number]

/** Returns milliseconds since midnight UTC, for `hh:mm:ssZ`. */
const timeMs = (text: string): number => Date.parse(`1970-01-01T${text}`)

function conditionOf({ from, daily }: FilePrice): (time: Date) => boolean {
  if (from !== undefined) {
    const since = Date.parse(from)
    return (time) => time.getTime() >= since
  }
  if (daily !== undefined) {
    const [begin, end] = [timeMs(daily.from), timeMs(daily.to)]
    return (callTime) => {
      const time = callTime.getTime() % DAY_MS
      return end < begin ? time >= begin || time < end : time >= begin && time < end
    }
  }
  return () => true
}

function priceIn({ rates }: FilePrice, version: string, audioSecondsMin: number): Price | undefined {
  const own: Partial<Record<CountedUnit, Rate>> = {}
  for (const unit of counted) {
    const rate = rates[unit]
    if (rate === undefined) continue
    own[unit] =
      typeof rate === 'number'
        ? { base: BigInt(rate), tiers: [] }
        : {
            base: BigInt(rate.base),
            tiers: rate.tiers.map((tier) => ({ above: tier.above, nanos: BigInt(tier.nanos) })),
          }
  }
  const isPartial = uncountedUnits.some((unit) => rates[unit] !== undefined && !optionalUnits.has(unit))
  return Object.keys(own).length === 0 ? undefined : { version, rates: own, audioSecondsMin, isPartial }
}

interface PricedModel {
  matches: (model: string) => boolean
  /** The first valid one wins. */
  prices: readonly { holds: (time: Date) => boolean; price: Price | undefined }[]
  otherwise: Price | undefined
  contextWindow: number | undefined
}

function openModel({ match, prices, audioSecondsMin = 0, contextWindow }: FileModel, version: string): PricedModel {
  const opened = prices.map((entry) => ({
    holds: conditionOf(entry),
    price: priceIn(entry, version, audioSecondsMin),
  }))
  return { matches: matcherOf(match), prices: opened.toReversed(), otherwise: opened[0]?.price, contextWindow }
}

/** Converts `-20260131`, as providers write it, to the prices' `-2026-01-31`. */
const withDashes = (model: string): string =>
  model.replaceAll(/-(20\d{2})(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])(?=-|:|$)/g, (whole, year, month, day) => {
    const date = `${year}-${month}-${day}`
    const parsed = new Date(date)
    return !Number.isNaN(parsed.getTime()) && parsed.toISOString().startsWith(date) ? `-${date}` : whole
  })

/** Reads the checked-in prices. Throws if the file has another shape. */
export function openPrices(file: URL = new URL('./prices.json', import.meta.url)): Prices {
  const { priceVersion, pricesOf, providers } = PriceFile.parse(JSON.parse(readFileSync(file, 'utf8')))
  const opened = new Map(
    Object.entries(providers).map(([id, { models, fallbacks }]) => [
      id,
      { fallbacks, models: models.map((model) => openModel(model, priceVersion)) },
    ]),
  )
  /** Models are the operator's, so few; finding one searches up to 700 entries. */
  const modelsById = new LRUCache<string, { model: PricedModel | undefined }>({ ...entriesMax(MATCHES_KEPT) })

  function findAmong(providerId: string, model: string): PricedModel | undefined {
    const provider = opened.get(providerId)
    if (!provider) return undefined
    for (const id of [providerId, ...provider.fallbacks]) {
      const priced = opened.get(id)?.models.find(({ matches }) => matches(model))
      if (priced) return priced
    }
    return undefined
  }
  function findModel(providerId: string, upstreamModel: string): PricedModel | undefined {
    const key = JSON.stringify([providerId, upstreamModel])
    let entry = modelsById.get(key)
    if (!entry) {
      const model = upstreamModel.toLowerCase().trim()
      entry = { model: findAmong(providerId, model) ?? findAmong(providerId, withDashes(model)) }
      modelsById.set(key, entry)
    }
    return entry.model
  }

  return {
    version: priceVersion,
    priceOf(providerId, upstreamModel, time) {
      const model = findModel(providerId, upstreamModel)
      const holding = model?.prices.find(({ holds }) => holds(time))
      return holding ? holding.price : model?.otherwise
    },
    contextWindowOf: (providerId, upstreamModel) => findModel(providerId, upstreamModel)?.contextWindow,
    ageDays: (now) => Math.floor((now.getTime() - Date.parse(pricesOf)) / DAY_MS),
  }
}
