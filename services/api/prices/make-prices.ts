import { readFileSync } from 'node:fs'
import { findProvider, type ConditionalPrice, type ModelInfo, type Provider } from '@pydantic/genai-prices'
import { nanosOf, PriceFile } from '../src/areas/ai/governance/prices.ts'

/** Of whom prices are kept. Those of an aggregator are its own, not those of whom it passes calls to. */
const providerIds = [
  'anthropic',
  'aws',
  'azure',
  'cerebras',
  'cohere',
  'deepseek',
  'fireworks',
  'google',
  'groq',
  'mistral',
  'moonshotai',
  'openai',
  'openrouter',
  'perplexity',
  'together',
  'x-ai',
]

/** When the version that is installed was published: the data has no date of its own. */
const PUBLISHED = { version: '0.1.8', on: '2026-09-23' }

/** Rules that the package has in its code and not in its data. */
const audioSecondsMin: Readonly<Record<string, number>> = {
  'groq whisper-large-v3': 10,
  'groq whisper-large-v3-turbo': 10,
}

const folder = new URL('..', import.meta.resolve('@pydantic/genai-prices'))

function requireMembers(value: object, known: readonly string[], where: string): void {
  for (const name of Object.keys(value)) if (!known.includes(name)) throw new Error(`${where} has a member ${name}`)
}

function nanosIn(usd: unknown, where: string): number {
  if (typeof usd !== 'number' || !(usd >= 0)) throw new Error(`${where} is no price: ${JSON.stringify(usd)}`)
  return nanosOf(usd)
}

function rateOf(rate: unknown, where: string): unknown {
  if (typeof rate !== 'object' || rate === null) return nanosIn(rate, where)
  requireMembers(rate, ['base', 'tiers'], where)
  const { base, tiers } = rate as { base?: unknown; tiers?: { start: number; price: number }[] }
  return {
    base: nanosIn(base, where),
    tiers: (tiers ?? [])
      .map((tier) => {
        requireMembers(tier, ['price', 'start'], where)
        return { above: tier.start, nanos: nanosIn(tier.price, where) }
      })
      .toSorted((a, b) => a.above - b.above),
  }
}

function conditionOf({ constraint }: ConditionalPrice, where: string): object {
  if (constraint === undefined) return {}
  switch (constraint.type) {
    case 'start_date':
      requireMembers(constraint, ['type', 'start_date'], where)
      return { from: constraint.start_date }
    case 'time_of_date':
      requireMembers(constraint, ['type', 'start_time', 'end_time'], where)
      return { daily: { from: constraint.start_time, to: constraint.end_time } }
    default:
      throw new Error(`${where} has a constraint ${JSON.stringify(constraint)}`)
  }
}

const aboutModel = ['context_window', 'deprecated', 'description', 'name', 'price_comments']

function modelOf(providerId: string, model: ModelInfo): object {
  const where = `${providerId} ${model.id}`
  requireMembers(model, ['id', 'match', 'prices', ...aboutModel], where)
  const entries: ConditionalPrice[] = Array.isArray(model.prices) ? model.prices : [{ prices: model.prices }]
  const least = audioSecondsMin[where]
  return {
    match: model.match,
    prices: entries.map((entry) => {
      requireMembers(entry, ['constraint', 'prices'], where)
      const rates = Object.entries(entry.prices).map(([unit, rate]) => [unit, rateOf(rate, `${where} ${unit}`)])
      return { ...conditionOf(entry, where), rates: Object.fromEntries(rates) as unknown }
    }),
    ...(least !== undefined && { audioSecondsMin: least }),
    ...(model.context_window !== undefined && { contextWindow: model.context_window }),
  }
}

/** The providers in the data of the installed package. Throws for one that it does not have. */
export function knownProviders(): Provider[] {
  return providerIds.map((id) => {
    const provider = findProvider({ providerId: id })
    if (provider?.id !== id) throw new Error(`genai-prices has no provider ${id}`)
    return provider
  })
}

/**
 * The text of prices.json: a model a line, so that a review shows whose price changes. Throws with the name of any unit, member,
 * condition or clause that is not known here, since what is not understood would be charged wrongly.
 */
export function makePrices(providers: readonly Provider[]): string {
  const { version } = JSON.parse(readFileSync(new URL('package.json', folder), 'utf8')) as { version: string }
  if (version !== PUBLISHED.version) throw new Error(`Say in PUBLISHED when genai-prices ${version} was published`)
  const kept = providers.map(({ id, models, fallback_model_providers: fallbacks = [] }) => {
    for (const fallback of fallbacks)
      if (!providerIds.includes(fallback)) throw new Error(`${id} falls back to ${fallback}, which is not kept`)
    return { id, fallbacks, models: models.map((model) => modelOf(id, model)) }
  })
  const head = { priceVersion: `genai-prices ${version}`, pricesOf: PUBLISHED.on }
  // Names the path of whatever has another shape, an unknown unit included.
  PriceFile.parse({ ...head, providers: Object.fromEntries(kept.map(({ id, ...provider }) => [id, provider])) })
  const lines = kept.map(
    ({ id, fallbacks, models }) =>
      `${JSON.stringify(id)}:{"fallbacks":${JSON.stringify(fallbacks)},"models":[\n${models.map((model) => JSON.stringify(model)).join(',\n')}\n]}`,
  )
  return `${JSON.stringify(head).slice(0, -1)},"providers":{\n${lines.join(',\n')}\n}}\n`
}

/** The licence of the data, which goes with it. */
export const licenceText = (): string => readFileSync(new URL('LICENSE', folder), 'utf8')
