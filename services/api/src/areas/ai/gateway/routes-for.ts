import { AiError } from '@platform/errors/ai-error'
import { findProviderKeys } from '../governance/provider-keys.ts'
import { policiesOf, type PolicyRules } from '../governance/policies/policies.ts'
import { requireAllowedModel, withAllowedRoutes, withoutFallbacks, withPolicyCap } from './apply-policies.ts'
import type { Call } from './call.ts'
import type { Model } from './providers/model.ts'
import { chooseRoutes, type KeyedRoute, keyedRoutes, unknownModel } from './providers/choose-routes.ts'
import { findOtherCase, findUrlParam, unsupportedParameter } from './requests/inspect-request.ts'
import type { InferenceRequest } from './operations.ts'
import type { Placement } from './place-call.ts'
import { findItemReferences, type ItemReference } from './requests/item-references.ts'
import { findStoredItems, findStoredResponse, type StoredResponse } from './stored-responses.ts'

const noPolicies: readonly PolicyRules[] = []
const noKeys: ReadonlyMap<string, string> = new Map()

/** Finds the response that `previous_response_id` names. Throws AiError if it is not the caller's (D89). */
async function findPrevious(
  { exchange: { deps } }: Call,
  placement: Placement,
  { operation, body }: InferenceRequest,
): Promise<Pick<StoredResponse, 'provider' | 'totalTokens'> | undefined> {
  const previous = operation === 'responses' ? body['previous_response_id'] : undefined
  if (typeof previous !== 'string') return undefined
  const storedResponse = await findStoredResponse(deps, placement, previous)
  if (storedResponse) return storedResponse
  throw new AiError(
    404,
    'invalid_request_error',
    'previous_response_not_found',
    'The previous response does not exist',
    {
      param: 'previous_response_id',
    },
  )
}

/** Rejects members that would cause an action later or elsewhere, and known members in another case. */
function refuseUnpassable({ body }: InferenceRequest): void {
  const otherCase = findOtherCase(body)
  if (otherCase !== undefined) throw unsupportedParameter(otherCase, `${otherCase} is to be written in lower case`)
  if (body['background'] === true)
    throw unsupportedParameter('background', 'Answers are not made in the background here')
  if (body['callback_url'] != null)
    throw unsupportedParameter('callback_url', 'Nobody is called back: ask for the job instead')
}

/** The routes of a call. */
interface RoutesOfCall {
  /** With a policy's cap if the caller sent none. */
  request: InferenceRequest
  model: Model
  /** Input and output tokens of the response that the request builds on; null: unknown. */
  earlierTokens: number | null
  /** In the order to try them. */
  routes: KeyedRoute[]
  /** Input items that the provider has to know, and those that each provider stores for the caller. */
  references: readonly ItemReference[]
  storedItems: ReadonlyMap<string, ReadonlySet<string>>
}

const noItems: RoutesOfCall['storedItems'] = new Map()

/** Finds the model of a call, and the routes allowed by the policies that apply to it. Throws AiError. */
export async function routesFor(call: Call, placement: Placement, request: InferenceRequest): Promise<RoutesOfCall> {
  const { deps } = call.exchange
  const knownModel = deps.ai.catalog.models.get(request.model)
  if (!knownModel) throw unknownModel(request.model)
  call.modelServed = knownModel.id
  const [policies, ownKeys] = await Promise.all([
    placement.hasPolicies ? policiesOf(deps, placement) : noPolicies,
    placement.hasKeys ? findProviderKeys(deps, placement.organizationId) : noKeys,
  ])
  requireAllowedModel(policies, knownModel)
  // Own keys first: a policy that excludes them must not lead to one of the operator's keys.
  const model = withAllowedRoutes(policies, { ...knownModel, routes: keyedRoutes(knownModel, ownKeys) })
  const capped = withPolicyCap(policies, request, knownModel)
  refuseUnpassable(request)
  const previous = await findPrevious(call, placement, request)
  const demands = {
    preferences: request.preferences,
    urlParam: findUrlParam(request.body),
    providerId: previous?.provider,
  }
  const references = request.operation === 'responses' ? findItemReferences(request.body) : []
  const ids = references.map(({ id }) => id)
  const storedItems = ids.length > 0 ? await findStoredItems(deps, placement, ids) : noItems
  const routes = withoutFallbacks(policies, chooseRoutes(model, placement, ownKeys, demands))
  call.keyOwner = routes[0]?.keyOwner ?? null
  return { request: capped, model, routes, earlierTokens: previous ? previous.totalTokens : 0, references, storedItems }
}
