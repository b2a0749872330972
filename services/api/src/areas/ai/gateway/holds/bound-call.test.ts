import { requestTextBytes } from '@platform/ai-protocols/text-bytes'
import { noUsage, type Usage } from '@platform/ai-protocols/usage'
import { isDrill, testSeed } from '@platform/testkit/test-environment'
import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { costNanos } from '../../governance/cost.ts'
import type { Price, Prices, Rate } from '../../governance/prices.ts'
import { localProvider } from '../local/local-models.ts'
import type { InferenceRequest } from '../operations.ts'
import { canBeCapped, capOf } from '../output-cap.ts'
import type { KeyedRoute } from '../providers/choose-routes.ts'
import type { Model, Provider } from '../providers/model.ts'
import { findItemReferences } from '../requests/item-references.ts'
import { boundCall, type CallBound, type Needs, type RouteBound } from './bound-call.ts'
import { UnsupportedUnderBudget } from './unsupported-under-budget.ts'

const RUNS = isDrill ? 10_000 : 400
const ADDED_TOKENS = 256
const ADDED_TOOL_TOKENS = 1_024
/** The most that a window is above the published one: 1,048,576 for 1,000,000. */
const ROUNDED = 1.048576

/** A part of a request's content. */
interface Part {
  value: object
  /** How its tokens are known: by its text, by a bound of the route, or not at all. */
  sizedBy: 'text' | 'image' | 'file' | 'nothing'
  mayBeAudio: boolean
}
const part = (value: object, sizedBy: Part['sizedBy'], mayBeAudio = sizedBy !== 'text'): Part => ({
  value,
  sizedBy,
  mayBeAudio,
})

const anyText = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 40 }),
  fc.constantFrom('x'.repeat(3_000), '\u{fdfa}', '"\\\n'),
)
const png = 'data:image/png;base64,iVBORw0KGgo='
const chatPart: fc.Arbitrary<Part> = fc.oneof(
  anyText.map((text) => part({ type: 'text', text }, 'text')),
  fc.constantFrom(
    part({ type: 'image_url', image_url: { url: png } }, 'image', false),
    part({ type: 'image_url', image_url: { url: 'https://a.test/a' } }, 'image'),
    part({ type: 'file', file: { file_data: 'data:application/pdf;base64,AA==' } }, 'file'),
    part({ type: 'input_audio', input_audio: { data: 'AA==', format: 'mp3' } }, 'file'),
    part({ type: 'file', file: { file_id: 'file-1' } }, 'nothing'),
    part({ type: 'text', text: '', image_url: png }, 'nothing'),
  ),
)
const responsePart: fc.Arbitrary<Part> = fc.oneof(
  anyText.map((text) => part({ type: 'input_text', text }, 'text')),
  fc.constantFrom(
    part({ type: 'input_image', image_url: png }, 'image', false),
    part({ type: 'input_image', file_id: 'file-1' }, 'image'),
    part({ type: 'input_file', file_data: 'data:application/pdf;base64,AA==' }, 'file'),
    part({ type: 'input_file', file_id: 'file-1' }, 'nothing'),
  ),
)

/** A call, and what is true of it. */
interface Ask {
  operation: 'chat.completions' | 'responses' | 'audio.speech'
  body: Record<string, unknown>
  parts: readonly Part[]
  earlierTokens: number | null
}

const cap = fc.option(fc.nat(20_000), { nil: undefined })
const tool = fc.constantFrom(
  { type: 'function', function: { name: 'f', parameters: { type: 'object', description: 'x'.repeat(500) } } },
  { type: 'custom', custom: { name: 'g' } },
)
const sharedMembers = {
  temperature: fc.constantFrom(0, 1),
  service_tier: fc.constantFrom('default', null),
  user: anyText,
  metadata: fc.constant({ team: 'a' }),
}
/** Members that only some routes take, or none. */
const oddMembers = fc.oneof(
  { weight: 8, arbitrary: fc.constant({}) },
  { weight: 2, arbitrary: anyText.map((regex) => ({ guided_regex: regex })) },
  fc.constantFrom<object>({ service_tier: 'flex' }, { web_search_options: {} }, { tools: [{ type: 'web_search' }] }),
)
const chatMembers = fc.record(
  {
    ...sharedMembers,
    tools: fc.array(tool, { maxLength: 2 }),
    n: fc.integer({ min: 1, max: 128 }),
    response_format: fc.constant({ type: 'json_schema', json_schema: { name: 's', schema: { type: 'object' } } }),
    modalities: fc.constant(['text']),
    max_tokens: cap,
    max_completion_tokens: cap,
  },
  { requiredKeys: [] },
)
const chatAsk = fc
  .tuple(
    fc.array(fc.array(chatPart, { minLength: 1, maxLength: 3 }), { minLength: 1, maxLength: 2 }),
    chatMembers,
    oddMembers,
  )
  .map(([messages, members, odd]): Ask => ({
    operation: 'chat.completions',
    body: {
      messages: messages.map((parts) => ({ role: 'user', content: parts.map(({ value }) => value) })),
      ...members,
      ...odd,
    },
    parts: messages.flat(),
    earlierTokens: 0,
  }))
const item: fc.Arbitrary<{ value: object; parts: readonly Part[] }> = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.array(responsePart, { maxLength: 3 }).map((parts) => ({
      value: { role: 'user', content: parts.map(({ value }) => value) },
      parts,
    })),
  },
  fc
    .constantFrom({ type: 'item_reference', id: 'item-1' }, { type: 'reasoning', id: 'rs-1', summary: [] })
    .map((value) => ({ value, parts: [part(value, 'nothing')] })),
)
const responseMembers = fc.record(
  {
    ...sharedMembers,
    tools: fc.array(tool, { maxLength: 2 }),
    instructions: anyText,
    text: fc.constant({ format: { type: 'text' } }),
    max_output_tokens: cap,
  },
  { requiredKeys: [] },
)
const responseAsk = fc
  .tuple(
    fc.oneof(anyText, fc.array(item, { minLength: 1, maxLength: 3 })),
    responseMembers,
    oddMembers,
    fc.oneof({ weight: 3, arbitrary: fc.constant(0) }, fc.nat(50_000), fc.constant(null)),
  )
  .map(([input, members, odd, earlierTokens]): Ask => ({
    operation: 'responses',
    body: {
      input: typeof input === 'string' ? input : input.map(({ value }) => value),
      ...(earlierTokens !== 0 && { previous_response_id: 'resp-1' }),
      ...members,
      ...odd,
    },
    parts: typeof input === 'string' ? [] : input.flatMap(({ parts }) => parts),
    earlierTokens,
  }))
const speechAsk = anyText.map((input): Ask => ({
  operation: 'audio.speech',
  body: { input, voice: 'alloy' },
  parts: [],
  earlierTokens: 0,
}))
const anyAsk = fc.oneof({ weight: 5, arbitrary: chatAsk }, { weight: 5, arbitrary: responseAsk }, speechAsk)

const rate: fc.Arbitrary<Rate> = fc
  .tuple(
    fc.bigInt(0n, 1_000_000_000n),
    fc.array(fc.tuple(fc.nat(150_000), fc.bigInt(0n, 9_000_000_000n)), { maxLength: 2 }),
  )
  .map(([base, tiers]) => ({
    base,
    tiers: tiers.map(([above, nanos]) => ({ above, nanos })).toSorted((a, b) => a.above - b.above),
  }))
const anyPrice: fc.Arbitrary<Price> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc
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
        },
        { requiredKeys: ['input_mtok'] },
      )
      .map((rates) => ({ version: 'v', rates, audioSecondsMin: 0, isPartial: false })),
  },
  fc.constantFrom([], [{ above: 1_000, nanos: 1n }]).map((tiers) => ({
    version: 'free, perhaps at first',
    rates: { input_mtok: { base: 0n, tiers } },
    audioSecondsMin: 0,
    isPartial: false,
  })),
)
const tokens = fc.integer({ min: 1, max: 200_000 })
const maybe = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: undefined, freq: 2 })

/** A route, and the window that is published for it. */
interface Offer {
  route: KeyedRoute
  published: number | undefined
}
const anyOffer: fc.Arbitrary<Offer> = fc
  .record({
    price: maybe(anyPrice),
    published: maybe(tokens),
    bounds: fc.record({ image: tokens, file: tokens }, { requiredKeys: [] }),
    unpriced: fc.constantFrom([], ['guided_regex']),
  })
  .map(({ price, published, bounds, unpriced }) => {
    const provider: Provider = { ...localProvider, id: 'remote', driver: 'openai-compatible', unpriced }
    const route: KeyedRoute = {
      provider,
      upstreamModel: 'm',
      weight: 1,
      capParameter: 'max_completion_tokens',
      price,
      bounds,
      key: 'k',
      keyOwner: 'operator',
    }
    return { route, published }
  })
const localRoute: KeyedRoute = {
  provider: localProvider,
  upstreamModel: 'm',
  weight: 1,
  capParameter: 'max_completion_tokens',
  price: undefined,
  bounds: {},
  key: '',
  keyOwner: 'local',
}
const offers = fc.oneof(
  { weight: 9, arbitrary: fc.array(anyOffer, { minLength: 1, maxLength: 3 }) },
  fc.constant<Offer[]>([{ route: localRoute, published: undefined }]),
)
const limits = fc.record({
  contextWindow: fc.option(tokens, { nil: null, freq: 1 }),
  maxOutputTokens: fc.option(fc.integer({ min: 1, max: 30_000 }), { nil: null }),
})
const anyNeeds = fc.constantFrom<Needs>(
  { cost: true, tokens: false },
  { cost: false, tokens: true },
  { cost: true, tokens: true },
)

const textKinds = { 'chat.completions': 'chat', responses: 'responses', 'audio.speech': 'speech' } as const

/**
 * Returns the most input tokens that a provider can count: its whole window if it can make the input that long. A window that is
 * only published may be larger in truth, so that whatever has a size counts in full.
 */
function worstInput(
  { operation, body, parts, earlierTokens }: Ask,
  { bounds }: KeyedRoute,
  { window, isStated }: { window: number; isStated: boolean },
): number {
  const text = requestTextBytes(textKinds[operation], body)
  const sizes = parts.map(({ sizedBy }) =>
    sizedBy === 'text' ? 0 : sizedBy === 'nothing' ? undefined : bounds[sizedBy],
  )
  const hasTools = ['tools', 'response_format', 'text'].some((name) => body[name] !== undefined)
  const all = sizes.reduce<number>((sum, size = 0) => sum + size, text + (earlierTokens ?? 0) + ADDED_TOKENS)
  const sized = all + (hasTools ? ADDED_TOOL_TOKENS : 0)
  const isUnsized = earlierTokens === null || sizes.includes(undefined)
  if (isStated) return isUnsized ? window : Math.min(sized, window)
  return isUnsized ? Math.max(sized, window) : sized
}

/** Makes each usage that puts all input and all output into one bucket, in each tier that can be reached. */
function* worstUsages(ask: Ask, { price }: RouteBound, inputTokens: number, outputTokens: number): Generator<Usage> {
  const mayBeAudio = ask.earlierTokens !== 0 || ask.parts.some((each) => each.mayBeAudio)
  const tiers = Object.values(price?.rates ?? {}).flatMap((each) => each.tiers.map(({ above }) => above + 1))
  const inputs = [...new Set([inputTokens, ...tiers.filter((total) => total <= inputTokens)])]
  const inputBuckets = ['inputTokens', 'cacheReadTokens', 'cacheWriteTokens', 'inputAudioTokens'] as const
  const { input } = ask.body
  const characters = ask.operation === 'audio.speech' ? Array.from(String(input)).length : 0
  for (const total of inputs)
    for (const bucket of mayBeAudio ? inputBuckets : inputBuckets.slice(0, 3))
      for (const output of ['outputTokens', 'reasoningTokens', 'outputAudioTokens'] as const)
        yield { ...noUsage, characters, [bucket]: total, [output]: outputTokens }
}

const pricesOf = (all: readonly Offer[]): Prices => ({
  version: 'v',
  priceOf: () => undefined,
  contextWindowOf: (providerId) => all[Number(providerId)]?.published,
  ageDays: () => 0,
})

test('no usage that a provider can charge costs more, or has more tokens, than the call holds', async () => {
  let held = 0
  await fc.assert(
    fc.asyncProperty(anyAsk, offers, limits, anyNeeds, async (ask, all, modelLimits, needs) => {
      const model = { id: 'm', ...modelLimits } as Model
      const request: InferenceRequest = {
        operation: ask.operation,
        model: 'm',
        body: { model: 'm', ...ask.body },
        audio: undefined,
        answer: 'whole',
        preferences: undefined,
        textBytes: 0,
      }
      const routes = all.map(({ route }, n) =>
        route.keyOwner === 'local' ? route : { ...route, provider: { ...route.provider, id: String(n) } },
      )
      const references = ask.operation === 'responses' ? findItemReferences(request.body) : []
      let bound: CallBound
      try {
        const asked = { request, model, earlierTokens: ask.earlierTokens, references }
        bound = await boundCall(asked, routes, { prices: pricesOf(all), at: new Date(), needs })
      } catch (error) {
        if (!(error instanceof UnsupportedUnderBudget)) throw error
        return
      }
      held += 1
      if (bound.routes.every(({ isMeasured }) => !isMeasured)) expect(bound.request).toBe(request)
      for (const each of bound.routes) {
        const { route, isMeasured } = each
        const published = pricesOf(all).contextWindowOf(route.provider.id, 'm')
        const window = ask.operation === 'audio.speech' ? undefined : (model.contextWindow ?? published)
        const windowMost = model.contextWindow ?? Math.floor((published ?? Infinity) * ROUNDED)
        const isStated = window !== undefined && model.contextWindow !== null
        const most = route.keyOwner === 'local' ? requestTextBytes(textKinds[ask.operation], ask.body) : undefined
        const inputTokens =
          most ?? worstInput(ask, route, { window: window === undefined ? Infinity : windowMost, isStated })
        // What the provider reads in the request that it is sent.
        const perChoice = capOf(bound.request)?.tokens ?? model.maxOutputTokens ?? 0
        const { n = 1 } = bound.request.body
        const outputTokens = perChoice * Number(n)
        if (!isMeasured) {
          expect(needs.tokens).toBe(false)
          const costs = Array.from(
            worstUsages(ask, each, 1e6, 1e6),
            (usage) => each.price && costNanos(each.price, usage),
          )
          expect(costs.every((cost) => cost === null || cost === 0n)).toBe(true)
          continue
        }
        if (canBeCapped(request)) expect(capOf(bound.request)).toBeDefined()
        expect(each.inputTokens + each.outputTokens).toBeGreaterThanOrEqual(inputTokens + outputTokens)
        if (needs.tokens) expect(bound.tokens).toBeGreaterThanOrEqual(inputTokens + outputTokens)
        // It holds no more than can be read.
        if (route.keyOwner !== 'local' && isStated) expect(each.inputTokens).toBeLessThanOrEqual(windowMost)
        if (!needs.cost || !each.price) continue
        for (const usage of worstUsages(ask, each, inputTokens, outputTokens)) {
          const cost = costNanos(each.price, usage)
          expect(each.costNanos).toBeGreaterThanOrEqual(cost)
          expect(bound.costNanos).toBeGreaterThanOrEqual(cost)
        }
      }
    }),
    { numRuns: RUNS, ...(testSeed !== undefined && { seed: testSeed }) },
  )
  // Else it would say nothing.
  expect(held).toBeGreaterThan(RUNS / 4)
})
