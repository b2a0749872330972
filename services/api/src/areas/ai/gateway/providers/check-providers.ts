import { describeAiFailure } from '@platform/errors/render-error'
import { newIdAt } from '@platform/runtime/new-id'
import type { AiDeps } from '../../deps.ts'
import type { Model, Route } from './model.ts'
import type { KeyedRoute } from './choose-routes.ts'
import { createCircuits } from './circuits.ts'
import { dispatch } from './dispatch.ts'
import type { InferenceRequest } from '../operations.ts'
import { wiresFor } from './wires.ts'

const noReferences = { references: [], storedItems: new Map<string, ReadonlySet<string>>() }

const LIVE_MS = 30_000
const OUTPUT_TOKENS = 16

/** The check result of a route in the operator's file. */
interface CheckedRoute {
  model: string
  provider: string
  upstreamModel: string
  hasKey: boolean
  /** The source of its price; null: unknown, so its use costs nothing here. */
  priceVersion: string | null
  /** Latency of a live call; null if none was sent. */
  latencyMs: number | null
  /** null: no error was found, as far as it was tested. */
  error: string | null
}

/** The smallest possible chat. Routes of models without chat are not called. */
const smallChat = ({ id }: Model): InferenceRequest => ({
  operation: 'chat.completions',
  model: id,
  body: { model: id, messages: [{ role: 'user', content: 'Say OK.' }], max_completion_tokens: OUTPUT_TOKENS },
  audio: undefined,
  answer: 'whole',
  preferences: undefined,
  textBytes: 7,
})

const chats = ({ capabilities, modalities }: Model): boolean =>
  capabilities.chat ?? (modalities.output.length === 0 || modalities.output.includes('text'))

async function callRoute(
  deps: Pick<AiDeps, 'ai' | 'now'>,
  model: Model,
  route: Route,
  key: string,
): Promise<string | null> {
  const { ai, now } = deps
  const keyed: KeyedRoute = { ...route, key, keyOwner: 'operator' }
  const request = smallChat(model)
  const time = now()
  const requestId = newIdAt(time)
  const call = {
    organizationId: 'operator',
    signal: AbortSignal.timeout(LIVE_MS),
    isWaitedFor: () => true,
    answer: 'whole' as const,
    mayRepeatLost: false,
    attempts: [],
    onAsked: () => {},
    onLost: () => {},
    requestBytes: () => 0,
  }
  try {
    const context = { requestId, now: time, model, lacksResponses: ai.lacksResponses, ...noReferences }
    // Separate circuits: a failing route must not prevent trying the next.
    const served = await dispatch({ ...ai, circuits: createCircuits() }, call, [keyed], (each) =>
      wiresFor(request, each, context),
    )
    served.release()
    return null
  } catch (error) {
    return describeAiFailure(error).message
  }
}

/** Checks each route of the operator's file; with `isLive`, also sends one small chat along it. */
export async function checkProviders(
  deps: Pick<AiDeps, 'ai' | 'now'>,
  { isLive }: { isLive: boolean },
): Promise<CheckedRoute[]> {
  const { ai, now } = deps
  const checked: CheckedRoute[] = []
  for (const model of ai.catalog.models.values())
    for (const route of model.routes) {
      const { provider, upstreamModel, price } = route
      if (provider.driver === 'local') continue
      const key = provider.operatorKey
      const startedAt = performance.now()
      const isCalled = isLive && key !== undefined && chats(model)
      const error = isCalled ? await callRoute(deps, model, route, key) : null
      checked.push({
        model: model.id,
        provider: provider.id,
        upstreamModel,
        hasKey: key !== undefined,
        priceVersion: (price ?? ai.prices.priceOf(provider.id, upstreamModel, now()))?.version ?? null,
        latencyMs: isCalled ? Math.round(performance.now() - startedAt) : null,
        error,
      })
    }
  return checked
}
