import { AiError } from '@platform/errors/ai-error'
import type { PolicyRules } from '../governance/policies/policies.ts'
import type { InferenceRequest } from './operations.ts'
import { canBeCapped, capOf, withOutputCap } from './output-cap.ts'
import type { KeyedRoute } from './providers/choose-routes.ts'
import type { Model, Route } from './providers/model.ts'

const forbidden = (code: string, message: string, param: string | null): AiError =>
  new AiError(403, 'permission_error', code, message, { param })

/** True if every policy allows the model. */
export const allowsModel = (policies: readonly PolicyRules[], { id }: Pick<Model, 'id'>): boolean =>
  policies.every(({ allowedModels }) => allowedModels === null || allowedModels.includes(id))

/** True if every policy allows the provider of a route. */
export const allowsRoute = (policies: readonly PolicyRules[], { provider }: Pick<Route, 'provider'>): boolean =>
  policies.every(
    ({ allowedProviders, requireZdr }) =>
      (allowedProviders === null || allowedProviders.includes(provider.id)) && (!requireZdr || provider.zdr),
  )

/** Throws AiError, 403 `model_not_allowed`. */
export function requireAllowedModel(policies: readonly PolicyRules[], model: Pick<Model, 'id'>): void {
  if (!allowsModel(policies, model))
    throw forbidden('model_not_allowed', `A policy of the organization does not allow the model ${model.id}`, 'model')
}

/**
 * Returns the model with the routes that every policy allows. Throws AiError, 403 `provider_not_allowed`, if none is left.
 */
export function withAllowedRoutes(policies: readonly PolicyRules[], model: Model): Model {
  const routes = model.routes.filter((route) => allowsRoute(policies, route))
  if (routes.length === 0 && model.routes.length > 0)
    throw forbidden(
      'provider_not_allowed',
      `A policy of the organization allows no provider of the model ${model.id}`,
      null,
    )
  return { ...model, routes }
}

/** Returns the routes to try: only the first if a policy forbids fallbacks. */
export const withoutFallbacks = (policies: readonly PolicyRules[], routes: KeyedRoute[]): KeyedRoute[] =>
  policies.every(({ allowFallbacks }) => allowFallbacks) ? routes : routes.slice(0, 1)

/**
 * Caps the request at the policies' smallest cap if it sets none, but not above the model's own limit, which providers would
 * reject; operations without a cap stay as they are. Throws AiError, 403 `output_limit`, if the request's cap is larger.
 */
export function withPolicyCap(
  policies: readonly PolicyRules[],
  request: InferenceRequest,
  { maxOutputTokens }: Pick<Model, 'maxOutputTokens'>,
): InferenceRequest {
  const most = Math.min(...policies.map((policy) => policy.maxOutputTokens ?? Infinity))
  if (most === Infinity || !canBeCapped(request)) return request
  const cap = capOf(request)
  if (!cap) return withOutputCap(request, Math.min(most, maxOutputTokens ?? Infinity), 'policy')
  if (cap.tokens > most)
    throw forbidden('output_limit', `A policy of the organization allows ${most} tokens of output at most`, cap.member)
  return withOutputCap(request, cap.tokens, 'caller')
}
