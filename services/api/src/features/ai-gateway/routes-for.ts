import { AiError } from '@platform/errors/ai-error'
import { findProviderKeys } from '../ai-governance/provider-keys.ts'
import type { Call } from './call.ts'
import type { Model } from './providers/model.ts'
import { chooseRoutes, type KeyedRoute, unknownModel } from './providers/choose-routes.ts'
import { findUrlParam, unsupportedParameter } from './requests/inspect-request.ts'
import type { InferenceRequest } from './operations.ts'
import type { Placement } from './place-call.ts'
import { findItemReferences, type ItemReference } from './requests/item-references.ts'
import { findStoredItems, findStoredResponse } from './stored-responses.ts'

const noKeys: ReadonlyMap<string, string> = new Map()

/** The provider that keeps what `previous_response_id` names. Throws AiError for one that is not the caller's (D89). */
async function providerOfPrevious(
  { exchange: { deps } }: Call,
  placement: Placement,
  { operation, body }: InferenceRequest,
): Promise<string | undefined> {
  const previous = operation === 'responses' ? body['previous_response_id'] : undefined
  if (typeof previous !== 'string') return undefined
  const found = await findStoredResponse(deps, placement, previous)
  if (found) return found.provider
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

/** Members that the gateway looks at or sets. */
const knownMembers = new Set([
  'model',
  'stream',
  'stream_options',
  'stream_format',
  'n',
  'store',
  'background',
  'callback_url',
  'max_tokens',
  'max_completion_tokens',
  'max_output_tokens',
  'service_tier',
  'modalities',
  'messages',
  'input',
  'prompt',
  'conversation',
  'previous_response_id',
  'tools',
  'tool_resources',
  'instructions',
  'image',
  'images',
  'frame_images',
  'input_references',
  'video',
  'duration',
  'seconds',
  'file',
  'response_format',
])

/** Members that would make somebody act later, or elsewhere, and those that are known in another case. */
function refuseUnpassable({ body }: InferenceRequest): void {
  for (const name of Object.keys(body)) {
    // Servers in Go take Model for model, and the last of them counts: it would go past the price and every rule.
    if (!knownMembers.has(name) && knownMembers.has(name.toUpperCase().toLowerCase()))
      throw unsupportedParameter(name, `${name} is to be written in lower case`)
  }
  if (body['background'] === true)
    throw unsupportedParameter('background', 'Answers are not made in the background here')
  if (body['callback_url'] != null)
    throw unsupportedParameter('callback_url', 'Nobody is called back: ask for the job instead')
}

/** Where a call may go. */
interface RoutesOfCall {
  model: Model
  /** In the order to try them. */
  routes: KeyedRoute[]
  /** Items of the input that a provider has to keep, and which of them each provider keeps for the caller. */
  references: readonly ItemReference[]
  storedItems: ReadonlyMap<string, ReadonlySet<string>>
}

const noItems: RoutesOfCall['storedItems'] = new Map()

/** The model of a call, and the routes that it may take. Throws AiError. */
export async function routesFor(call: Call, placement: Placement, request: InferenceRequest): Promise<RoutesOfCall> {
  const { deps } = call.exchange
  const model = deps.ai.catalog.models.get(request.model)
  if (!model) throw unknownModel(request.model)
  call.modelServed = model.id
  refuseUnpassable(request)
  const ownKeys = placement.hasKeys ? await findProviderKeys(deps, placement.organizationId) : noKeys
  const demands = {
    preferences: request.preferences,
    urlParam: findUrlParam(request.body),
    providerId: await providerOfPrevious(call, placement, request),
  }
  const references = request.operation === 'responses' ? findItemReferences(request.body) : []
  const ids = references.map(({ id }) => id)
  const storedItems = ids.length > 0 ? await findStoredItems(deps, placement, ids) : noItems
  return { model, routes: chooseRoutes(model, placement, ownKeys, demands), references, storedItems }
}
