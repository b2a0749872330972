import { AiError } from '@platform/errors/ai-error'
import { findProviderKeys } from '../ai-governance/provider-keys.ts'
import { policiesOf, type PolicyRules } from '../ai-governance/policies/policies.ts'
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

/** The response that `previous_response_id` names. Throws AiError for one that is not the caller's (D89). */
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

/** Members that would make somebody act later, or elsewhere, and those that are known in another case. */
function refuseUnpassable({ body }: InferenceRequest): void {
  const otherCase = findOtherCase(body)
  if (otherCase !== undefined) throw unsupportedParameter(otherCase, `${otherCase} is to be written in lower case`)
  if (body['background'] === true)
    throw unsupportedParameter('background', 'Answers are not made in the background here')
  if (body['callback_url'] != null)
    throw unsupportedParameter('callback_url', 'Nobody is called back: ask for the job instead')
}

/** Where a call may go. */
interface RoutesOfCall {
  /** With the cap of a policy, where it sends none. */
  request: InferenceRequest
  model: Model
  /** Input and output of the response that the request builds on; null: nobody said how much that was. */
  earlierTokens: number | null
  /** In the order to try them. */
  routes: KeyedRoute[]
  /** Items of the input that a provider has to keep, and which of them each provider keeps for the caller. */
  references: readonly ItemReference[]
  storedItems: ReadonlyMap<string, ReadonlySet<string>>
}

const noItems: RoutesOfCall['storedItems'] = new Map()

/** The model of a call, and the routes that it may take under the policies that it comes under. Throws AiError. */
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
  // Own keys first: a policy that rules them out leads to no key of the operator's.
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
