import { AiError } from '@platform/errors/ai-error'
import type { AiDeps } from '../deps.ts'
import { findProviderKeys } from '../governance/provider-keys.ts'
import type { CountedUnit, Price } from '../governance/prices.ts'
import { policiesOf } from '../governance/policies/policies.ts'
import { allowsModel, allowsRoute } from './apply-policies.ts'
import { type KeyedRoute, keyedRoutes, mayUse } from './providers/choose-routes.ts'
import type { Model, Route } from './providers/model.ts'
import type { Placement } from './place-call.ts'

const NANOS_PER_USD = 1e9

const usd = (price: Price | undefined, unit: CountedUnit): number | null => {
  const rate = price?.rates[unit]
  return rate === undefined ? null : Number(rate.base) / NANOS_PER_USD
}

/** Returns the price of a route in US dollars; null if unknown. */
function pricingOf({ prices }: AiDeps['ai'], { price, provider, upstreamModel }: Route, time: Date) {
  if (provider.driver === 'local') return { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, request: 0 }
  const known = price ?? prices.priceOf(provider.id, upstreamModel, time)
  if (!known) return null
  const perThousand = usd(known, 'requests_kcount')
  return {
    input: usd(known, 'input_mtok'),
    output: usd(known, 'output_mtok'),
    cacheRead: usd(known, 'cache_read_mtok'),
    cacheWrite: usd(known, 'cache_write_mtok'),
    request: perThousand === null ? null : perThousand / 1_000,
  }
}

/** Formats a model for callers. A listed model has at least one route; its price is the first route's. */
function shownModel(deps: Pick<AiDeps, 'ai' | 'now'>, { routes, modalities, ...model }: Model) {
  const providers = new Map(routes.map(({ provider }) => [provider.id, provider]))
  const [first] = routes
  return {
    id: model.id,
    object: 'model' as const,
    created: model.created,
    owned_by: model.ownedBy,
    name: model.name,
    provider: first?.provider.id ?? model.ownedBy,
    capabilities: model.capabilities,
    modalities: { input: [...modalities.input], output: [...modalities.output] },
    contextWindow: model.contextWindow,
    maxOutputTokens: model.maxOutputTokens,
    description: model.description,
    routingProviders: [...providers.keys()],
    routingProviderDetails: [...providers.values()].map(({ id, name, zdr }) => ({ id, name, supportsZdr: zdr })),
    zdrProviders: [...providers.values()].filter(({ zdr }) => zdr).map(({ id }) => id),
    pricing: first ? pricingOf(deps.ai, first, deps.now()) : null,
  }
}

/** A model with the routes that an organization can use. */
export interface UsableModel extends Model {
  readonly routes: readonly KeyedRoute[]
}

/** Returns the models that the call's policies allow and the organization can call, with their usable routes. */
export async function usableModels(
  deps: Pick<AiDeps, 'ai' | 'db' | 'sealer'>,
  placement: Omit<Placement, 'limits'>,
): Promise<UsableModel[]> {
  const { organizationId, hasKeys, hasPolicies } = placement
  const ownKeys = hasKeys ? await findProviderKeys(deps, organizationId) : new Map<string, string>()
  const policies = hasPolicies ? await policiesOf(deps, placement) : []
  return [...deps.ai.catalog.models.values()].flatMap((model) => {
    if (!allowsModel(policies, model)) return []
    const keyed = keyedRoutes(model, ownKeys).filter(mayUse(placement))
    const routes = keyed.filter((route) => allowsRoute(policies, route))
    return routes.length === 0 ? [] : [{ ...model, routes }]
  })
}

const isFilming = ({ modalities }: Model): boolean => modalities.output.includes('video')

/** Lists the models that the organization of a call can use, in both list conventions (wire.md). */
export async function listModels(
  deps: Pick<AiDeps, 'ai' | 'db' | 'sealer' | 'now'>,
  placement: Placement,
  kind: 'all' | 'video',
) {
  const models = await usableModels(deps, placement)
  const items = models.filter((model) => kind === 'all' || isFilming(model)).map((model) => shownModel(deps, model))
  return { object: 'list' as const, data: items, items, total: items.length }
}

/** Returns one of them. Throws AiError with `model_not_found`. */
export async function getModel(deps: Pick<AiDeps, 'ai' | 'db' | 'sealer' | 'now'>, placement: Placement, id: string) {
  const usableModel = (await usableModels(deps, placement)).find((model) => model.id === id)
  if (usableModel) return shownModel(deps, usableModel)
  throw new AiError(404, 'invalid_request_error', 'model_not_found', 'Model not found', { param: 'model' })
}
