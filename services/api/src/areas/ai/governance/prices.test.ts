import { readFileSync } from 'node:fs'
import { calcPrice, type ModelPrice, type Provider } from '@pydantic/genai-prices'
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { knownProviders, licenceText, makePrices } from '../../../../prices/make-prices.ts'
import { costNanos } from './cost.ts'
import { openPrices, type Price, priceFrom, PriceOverride } from './prices.ts'
import { noUsage, type Usage } from '@platform/ai-protocols/usage'

const prices = openPrices()
const providers = knownProviders()
const read = (name: string) => readFileSync(new URL(name, import.meta.url), 'utf8')

const used = (usage: Partial<Usage>): Usage => ({ ...noUsage, ...usage })

/** Computes dollars by the package itself, which expects totals instead of our disjoint buckets; undefined for an unknown model. */
function dollarsOf(usage: Usage, model: string, providerId: string, timestamp: Date): number | undefined {
  const totals = {
    input_tokens: usage.inputTokens + usage.cacheReadTokens + usage.cacheWriteTokens + usage.inputAudioTokens,
    cache_read_tokens: usage.cacheReadTokens,
    cache_write_tokens: usage.cacheWriteTokens,
    input_audio_tokens: usage.inputAudioTokens,
    cache_audio_read_tokens: 0,
    output_tokens: usage.outputTokens + usage.reasoningTokens + usage.outputAudioTokens,
    output_reasoning_tokens: usage.reasoningTokens,
    output_audio_tokens: usage.outputAudioTokens,
    audio_seconds: usage.audioSeconds,
    input_audio_seconds: usage.audioSeconds,
    input_characters: usage.characters,
  }
  return calcPrice(totals, model, { providerId, timestamp })?.total_price
}

/** Returns names that match a provider's clauses, each in several spellings. */
function namesIn(match: unknown): string[] {
  if (Array.isArray(match)) return match.flatMap(namesIn)
  if (typeof match === 'object' && match !== null) return Object.values(match).flatMap(namesIn)
  const name = String(match)
  return [name, name.toUpperCase(), `${name}-20260131`, `x-${name}`]
}
const models = providers.flatMap(({ id, models: of }) =>
  of.flatMap(({ id: model, match }) => [model, ...namesIn(match)].map((name) => [id, name] as const)),
)

const tokens = fc.oneof(fc.nat(2_000), fc.nat(2_000_000), fc.constantFrom(0, 128_000, 200_000, 200_001, 272_000))
const anyUsage = fc.record({
  inputTokens: tokens,
  cacheReadTokens: tokens,
  cacheWriteTokens: tokens,
  inputAudioTokens: tokens,
  outputTokens: tokens,
  reasoningTokens: tokens,
  outputAudioTokens: tokens,
  audioSeconds: fc.integer({ min: 0, max: 10_000_000 }).map((ms) => ms / 1_000),
  characters: tokens,
})
const moment = fc.date({ min: new Date('2025-01-01'), max: new Date('2027-06-01'), noInvalidDate: true })

describe('prices.json', () => {
  test('is what `npm run prices` makes of the pinned package, with its licence', () => {
    expect(read('prices.json')).toBe(makePrices(providers))
    expect(read('PRICES-LICENSE')).toBe(licenceText())
    expect(licenceText()).toContain('MIT')
  })

  const withPrices = (value: unknown): Provider[] => [
    {
      id: 'openai',
      name: '',
      api_pattern: '',
      models: [{ id: 'm', match: { equals: 'm' }, prices: value as ModelPrice }],
    },
  ]
  test.each([
    ['a unit', withPrices({ input_mwords: 1 }), /input_mwords/],
    ['a negative price', withPrices({ input_mtok: -1 }), /openai m input_mtok is no price: -1/],
    ['a price of another type', withPrices({ input_mtok: '1' }), /openai m input_mtok is no price: "1"/],
    ['tiers of another shape', withPrices({ input_mtok: { base: 1, tiers: [{ start: 1, price: 2, end: 3 }] } }), /end/],
    [
      'a condition',
      withPrices([{ constraint: { type: 'day_of_week', day: 1 }, prices: { input_mtok: 1 } }]),
      /openai m has a constraint .*day_of_week/,
    ],
    [
      'a clause',
      [
        { ...withPrices({})[0], models: [{ id: 'm', match: { sounds_like: 'm' }, prices: {} }] },
      ] as unknown as Provider[],
      /match/,
    ],
    [
      'a member',
      [
        { ...withPrices({})[0], models: [{ id: 'm', match: { equals: 'm' }, prices: {}, surcharge: 1 }] },
      ] as unknown as Provider[],
      /openai m has a member surcharge/,
    ],
    ['a fallback', [{ ...withPrices({})[0], fallback_model_providers: ['arcee'] }] as Provider[], /arcee/],
  ])('is not made where the data has %s that is not known', (_, data, message) => {
    expect(() => makePrices(data)).toThrow(message)
  })

  test('is so many days old', () => {
    expect(prices.ageDays(new Date('2026-09-23T23:59:59Z'))).toBe(0)
    expect(prices.ageDays(new Date('2026-12-22T00:00:00Z'))).toBe(90)
    expect(prices.version).toBe('genai-prices 0.1.8')
  })
})

describe('a price', () => {
  const at = new Date('2026-10-01T12:00:00Z')

  test('is in nano-dollars for a million tokens, in tiers where there are any', () => {
    expect(prices.priceOf('openai', 'gpt-4o', at)).toEqual({
      version: 'genai-prices 0.1.8',
      rates: {
        input_mtok: { base: 2_500_000_000n, tiers: [] },
        cache_read_mtok: { base: 1_250_000_000n, tiers: [] },
        output_mtok: { base: 10_000_000_000n, tiers: [] },
      },
      audioSecondsMin: 0,
      isPartial: false,
    })
    expect(prices.priceOf('google', 'gemini-2.5-pro', at)?.rates.input_mtok).toEqual({
      base: 1_250_000_000n,
      tiers: [{ above: 200_000, nanos: 2_500_000_000n }],
    })
  })

  test('comes with the context window of the model, where one is published', () => {
    expect(prices.contextWindowOf('openai', 'gpt-4o')).toBe(128_000)
    expect(prices.contextWindowOf('anthropic', 'claude-sonnet-4-5-20250929')).toBe(200_000)
    expect(prices.contextWindowOf('openai', 'whisper-1')).toBeUndefined()
    expect(prices.contextWindowOf('openai', 'no-such-model')).toBeUndefined()
  })

  test('is none for an unknown provider, an unknown model, and one whose price is not known', () => {
    expect(prices.priceOf('nobody', 'gpt-4o', at)).toBeUndefined()
    expect(prices.priceOf('openai', 'no-such-model', at)).toBeUndefined()
    expect(prices.priceOf('openrouter', 'phi-4-reasoning:free', at)).toBeUndefined()
  })

  test('is that of the moment: from a day on, and by the time of day', () => {
    const deepseek = (time: string) =>
      prices.priceOf('deepseek', 'deepseek-chat', new Date(`2026-10-01T${time}Z`))?.rates.input_mtok?.base
    expect(['00:29:59.999', '00:30:00', '16:29:59.999', '16:30:00'].map(deepseek)).toEqual([
      135_000_000n,
      270_000_000n,
      270_000_000n,
      135_000_000n,
    ])
    const o3 = (day: string) => prices.priceOf('openai', 'o3', new Date(day))?.rates.input_mtok?.base
    expect([o3('2025-06-09T23:59:59.999Z'), o3('2025-06-10T00:00:00Z')]).toEqual([10_000_000_000n, 2_000_000_000n])
  })
})

describe('a cost', () => {
  test('is what the package itself reckons, for each model and however it is spelt', () => {
    expect(models.length).toBeGreaterThan(4_000)
    const usage = used({
      inputTokens: 210_001,
      cacheReadTokens: 12_345,
      cacheWriteTokens: 777,
      inputAudioTokens: 99,
      outputTokens: 4_321,
      reasoningTokens: 1_234,
      outputAudioTokens: 55,
      audioSeconds: 7.25,
    })
    const time = new Date('2026-10-01T12:00:00Z')
    let priced = 0
    for (const [providerId, model] of models)
      for (const each of [usage, used({ ...usage, inputTokens: 5 }), used({ audioSeconds: 0.5 })]) {
        const price = prices.priceOf(providerId, model, time)
        const dollars = dollarsOf(each, model, providerId, time) ?? 0
        const nanos = price ? Number(costNanos(price, each)) : 0
        if (price) priced++
        expect([providerId, model, Math.abs(nanos - dollars * 1e9) <= 1.1]).toEqual([providerId, model, true])
      }
    expect(priced).toBeGreaterThan(10_000)
  })

  test('is what the package itself reckons, for any usage at any moment', () => {
    fc.assert(
      fc.property(fc.constantFrom(...models), anyUsage, moment, ([providerId, model], usage, time) => {
        const price = prices.priceOf(providerId, model, time)
        const dollars = dollarsOf(usage, model, providerId, time) ?? 0
        const nanos = price ? Number(costNanos(price, usage)) : 0
        // One nano for rounding up, some for rates that were rounded up, and the noise of the package's floating point.
        expect(Math.abs(nanos - dollars * 1e9)).toBeLessThanOrEqual(1 + 20 + dollars * 1e9 * 1e-12)
      }),
      { numRuns: 2_000 },
    )
  })

  const rate = fc
    .record({ base: fc.bigInt(0n, 10n ** 12n), steps: fc.array(fc.tuple(fc.nat(300_000), fc.bigInt(0n, 10n ** 11n))) })
    .map(({ base, steps }) => {
      let nanos = base
      let above = 0
      return { base, tiers: steps.map(([more, dearer]) => ({ above: (above += more + 1), nanos: (nanos += dearer) })) }
    })
  const anyPrice: fc.Arbitrary<Price> = fc
    .record(
      {
        input_mtok: rate,
        cache_read_mtok: rate,
        cache_write_mtok: rate,
        input_audio_mtok: rate,
        output_mtok: rate,
        output_reasoning_mtok: rate,
        output_audio_mtok: rate,
        input_mchars: rate,
        requests_kcount: rate,
        input_audio_hours: rate,
      },
      { requiredKeys: [] },
    )
    .map((rates) => ({ version: 'v', rates, audioSecondsMin: 0, isPartial: false }))

  test('rises with each bucket, or stays, where tiers are dearer than what is below them', () => {
    const bucket = fc.constantFrom(...(Object.keys(noUsage) as (keyof Usage)[]))
    fc.assert(
      fc.property(anyPrice, anyUsage, bucket, fc.nat(500_000), (price, usage, name, more) => {
        expect(costNanos(price, { ...usage, [name]: usage[name] + more })).toBeGreaterThanOrEqual(
          costNanos(price, usage),
        )
      }),
    )
    for (const [providerId, model] of models) {
      const { rates = {} } = prices.priceOf(providerId, model, new Date('2026-10-01')) ?? {}
      for (const { base, tiers } of Object.values(rates))
        for (const [n, tier] of tiers.entries())
          expect([model, tier.nanos >= (tiers[n - 1]?.nanos ?? base)]).toEqual([model, true])
    }
  })

  test('is rounded up once, not by bucket', () => {
    const price = priceFrom({ input_mtok: 0.0004, output_mtok: 0.0004 })
    expect(costNanos(price, used({ inputTokens: 1 }))).toBe(1n) // 0.4
    expect(costNanos(price, used({ inputTokens: 1, outputTokens: 1 }))).toBe(1n) // 0.8
    expect(costNanos(price, used({ inputTokens: 3, outputTokens: 2 }))).toBe(2n) // 2.0
    expect(costNanos(price, noUsage)).toBe(0n)
  })

  test('of cached, audio and reasoning tokens is that of plain ones, unless they have a rate of their own, and 0 is one', () => {
    const usage = used({
      cacheReadTokens: 1_000,
      cacheWriteTokens: 1_000,
      inputAudioTokens: 1_000,
      reasoningTokens: 1_000,
      outputAudioTokens: 1_000,
    })
    const plain = { input_mtok: 1, output_mtok: 10 }
    expect(costNanos(priceFrom(plain), usage)).toBe(23_000_000n)
    const free = { cache_read_mtok: 0, cache_write_mtok: 0, input_audio_mtok: 0, output_reasoning_mtok: 0 }
    expect(costNanos(priceFrom({ ...plain, ...free, output_audio_mtok: 0 }), usage)).toBe(0n)
    expect(costNanos(priceFrom({ ...plain, ...free }), usage)).toBe(10_000_000n)
  })

  test('goes by the tier of all input tokens, for all of them', () => {
    const price: Price = {
      version: 'v',
      rates: {
        input_mtok: { base: 1_000_000n, tiers: [{ above: 100, nanos: 2_000_000n }] },
        output_mtok: { base: 3_000_000n, tiers: [{ above: 100, nanos: 5_000_000n }] },
      },
      audioSecondsMin: 0,
      isPartial: false,
    }
    expect(costNanos(price, used({ inputTokens: 40, cacheReadTokens: 60, outputTokens: 10 }))).toBe(130n)
    expect(costNanos(price, used({ inputTokens: 40, cacheReadTokens: 61, outputTokens: 10 }))).toBe(252n)
  })

  test('has the price of the request, of audio by the hour and of spoken characters', () => {
    const price = priceFrom({ requests_kcount: 5, input_audio_hours: 0.36, input_mchars: 15 })
    expect(costNanos(price, noUsage)).toBe(5_000_000n)
    expect(costNanos(price, used({ audioSeconds: 0.5 }))).toBe(5_050_000n)
    expect(costNanos(price, used({ characters: 1_000 }))).toBe(20_000_000n)
  })
})

describe("an operator's price", () => {
  test('has the units that are counted, in dollars, and takes part in nothing but itself', () => {
    const override = PriceOverride.parse({ input_mtok: 0.0375, output_mtok: 0 })
    expect(priceFrom(override)).toEqual({
      version: 'operator',
      rates: { input_mtok: { base: 37_500_000n, tiers: [] }, output_mtok: { base: 0n, tiers: [] } },
      audioSecondsMin: 0,
      isPartial: false,
    })
  })

  test('that is not 0 is never rounded to 0', () => {
    expect(priceFrom({ input_mtok: 1e-12 }).rates.input_mtok?.base).toBe(1n)
  })

  test.each([
    {},
    { input_mtok: -1 },
    { input_mtok: '1' },
    { input_mtok: Number.NaN },
    { input_mtok: 1e7 },
    { tokens: 1 },
  ])('is none: %j', (value) => {
    expect(PriceOverride.safeParse(value).success).toBe(false)
  })
})
