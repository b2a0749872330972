import type { ProviderChoice } from '@platform/ai-protocols/fault'
import { AiError } from '@platform/errors/ai-error'
import type { Model, Route } from './model.ts'
import type { Placement } from '../place-call.ts'

/** A route with the key to call it with. */
export interface KeyedRoute extends Route {
  readonly key: string
  /** The owner of the key. */
  readonly keyOwner: 'operator' | 'organization' | 'local'
}

/** Requirements of a request besides the model. */
export interface Demands {
  preferences: ProviderChoice | undefined
  /** The member with a URL that the provider has to fetch; undefined: none. */
  urlParam: string | undefined
  /** The provider that stores what the request builds on. */
  providerId: string | undefined
}

export const unknownModel = (model: string): AiError =>
  new AiError(404, 'invalid_request_error', 'model_not_found', `The model ${model} does not exist`, { param: 'model' })

/**
 * Returns the routes of a model that have a key. If the organization has keys of its own for the model, calls use only those,
 * whatever they ask for.
 */
export function keyedRoutes({ routes }: Pick<Model, 'routes'>, ownKeys: ReadonlyMap<string, string>): KeyedRoute[] {
  const keyed = routes.flatMap((route): KeyedRoute[] => {
    const { provider } = route
    if (provider.driver === 'local') return [{ ...route, key: '', keyOwner: 'local' }]
    const own = ownKeys.get(provider.id)
    if (own !== undefined) return [{ ...route, key: own, keyOwner: 'organization' }]
    return provider.operatorKey === undefined ? [] : [{ ...route, key: provider.operatorKey, keyOwner: 'operator' }]
  })
  const own = keyed.filter(({ keyOwner }) => keyOwner === 'organization')
  return own.length > 0 ? own : keyed
}

/** The operator's keys serve organizations with an entitlement, and others within the operator's allowance (D111). */
export const mayUse =
  ({ isEntitled, hasAllowance }: Pick<Placement, 'isEntitled' | 'hasAllowance'>) =>
  ({ keyOwner }: KeyedRoute): boolean =>
    keyOwner !== 'operator' || isEntitled || hasAllowance

/**
 * Returns the routes of a model that a call may take, in the order to try them: those named by the caller first, the rest drawn by
 * weight.
 *
 * draw: returns a number from 0 to 1, new at each call.
 * Throws AiError: 503 if no route has a key, 400 if the preferences exclude all routes, 429 if only operator keys without an
 * entitlement or allowance are left.
 */
export function chooseRoutes(
  model: Model,
  placement: Pick<Placement, 'isEntitled' | 'hasAllowance'>,
  ownKeys: ReadonlyMap<string, string>,
  { preferences = {}, urlParam, providerId }: Demands,
  draw: () => number = Math.random,
): KeyedRoute[] {
  const keyed = keyedRoutes(model, ownKeys)
  if (keyed.length === 0) throw notConfigured(model.id)

  const { require_zdr: requireZdr, restrict_to_order: isRestricted, allow_fallbacks: mayFallBack } = preferences
  const order = preferences.order ?? []
  const wanted = keyed.filter(
    ({ provider: { id, zdr } }) =>
      (requireZdr !== true || zdr) &&
      (isRestricted !== true || order.includes(id)) &&
      (providerId === undefined || id === providerId),
  )
  if (wanted.length === 0)
    throw new AiError(
      400,
      'invalid_request_error',
      'unsupported_parameter',
      `No provider of ${model.id} is what the request asks for`,
      { param: providerId === undefined ? 'provider' : 'previous_response_id' },
    )
  const fetching = urlParam === undefined ? wanted : wanted.filter(({ provider: { fetchesUrls } }) => fetchesUrls)
  if (fetching.length === 0)
    throw new AiError(
      400,
      'invalid_request_error',
      'unsupported_url',
      'Addresses are not fetched for this model: send the content itself, as a data: URL',
      { param: urlParam ?? null },
    )
  const usable = fetching.filter(mayUse(placement))
  if (usable.length === 0)
    throw new AiError(
      429,
      'insufficient_quota',
      'budget_exceeded',
      'The organization has no allowance for the operator’s keys: store a provider key of its own, or ask the operator for access to the AI gateway',
      { headers: { 'x-should-retry': 'false' } },
    )
  const places = new Map(order.map((id, place) => [id, place]))
  const placeOf = ({ provider }: Route) => places.get(provider.id) ?? order.length
  // Sorting by u^(1/weight) is weighted drawing without replacement.
  const drawn = usable.map((route) => ({ route, lot: route.weight === 0 ? 0 : draw() ** (1 / route.weight) }))
  const sorted = drawn
    .toSorted((a, b) => placeOf(a.route) - placeOf(b.route) || b.lot - a.lot)
    .map(({ route }) => route)
  return mayFallBack === false ? sorted.slice(0, 1) : sorted
}

const notConfigured = (model: string): AiError =>
  new AiError(
    503,
    'api_error',
    'provider_not_configured',
    `No provider of ${model} has a key; the operator or the organization can set one`,
    { headers: { 'x-should-retry': 'false' } },
  )
