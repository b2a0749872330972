import { Readable } from 'node:stream'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { AiDeps } from '../../deps.ts'
import type { BudgetWarning, Refusable } from '../../governance/budgets/budget-warning.ts'
import { isEntitled } from '../../governance/budgets/entitlement.ts'
import { usableModels, type UsableModel } from '../models.ts'
import type { InferenceRequest } from '../operations.ts'
import type { Model } from '../providers/model.ts'
import { createAudioForm } from '../requests/audio-form.ts'
import { type Asked, boundCall, type Needs } from './bound-call.ts'
import { UnsupportedUnderBudget } from './unsupported-under-budget.ts'

const WARNINGS_MAX = 100
const MODELS_AT_ONCE = 20

/** A request as somebody might send it, to see whether it would be let through. */
interface Sample {
  kind: Refusable
  operation: InferenceRequest['operation']
  body: Readonly<Record<string, unknown>>
  /** 0 if omitted; null: unknown. */
  earlierTokens?: number | null
}

const chat = (kind: Refusable, part: object): Sample => ({
  kind,
  operation: 'chat.completions',
  body: { messages: [{ role: 'user', content: [part] }] },
})
const anyText = chat('everything', { type: 'text', text: 'Hello' })
const picture = chat('pictures', { type: 'image_url', image_url: { url: 'data:image/png;base64,AA==' } })
const file = chat('files', { type: 'file', file: { file_data: 'data:application/pdf;base64,AA==' } })
const recording = chat('recordings', { type: 'input_audio', input_audio: { data: 'AA==', format: 'mp3' } })
const earlierResponse: Sample = {
  kind: 'earlier responses',
  operation: 'responses',
  body: { input: 'Hello', previous_response_id: 'resp' },
  earlierTokens: null,
}
const speech: Sample = { kind: 'everything', operation: 'audio.speech', body: { input: 'Hello', voice: 'alloy' } }
/** Its file does not say how long it is. */
const transcription: Sample = { kind: 'recordings', operation: 'audio.transcriptions', body: {} }
const video: Sample = { kind: 'everything', operation: 'videos', body: { prompt: 'A ball', duration: 1 } }

/** Returns the samples that make sense for a model: those of a chat if nothing is said about it. */
function samplesFor({ modalities: { input, output }, routes }: Model): Sample[] {
  if (output.length > 0 && !output.includes('text'))
    return output.includes('video') ? [video] : output.includes('audio') ? [speech] : []
  const takes = (modality: string) => input.length === 0 || input.includes(modality)
  if (!takes('text')) return takes('audio') ? [transcription] : []
  const keepsResponses = routes.some(
    ({ provider: { driver, responses } }) => driver === 'openai-compatible' && responses !== false,
  )
  return [
    anyText,
    ...(takes('image') ? [picture] : []),
    ...(takes('file') ? [file] : []),
    ...(takes('audio') ? [recording] : []),
    ...(keepsResponses ? [earlierResponse] : []),
  ]
}

const soundFile = { name: 'sound.mp3', type: 'audio/mpeg', bytes: 0, read: () => Readable.from([]) }
const sound = { file: soundFile, formFor: () => createAudioForm([], soundFile) }

const askedBy = (model: Model, { operation, body, earlierTokens = 0 }: Sample): Asked => ({
  request: {
    operation,
    model: model.id,
    body: { model: model.id, ...body },
    audio: operation === 'audio.transcriptions' ? sound : undefined,
    answer: 'whole',
    preferences: undefined,
    textBytes: 0,
  },
  model,
  earlierTokens,
  references: [],
})

/** Returns what a model refuses under budgets that limit `needs`; undefined: nothing. */
async function warningOf(
  { ai: { prices }, now }: Pick<AiDeps, 'ai' | 'now'>,
  model: UsableModel,
  needs: Needs,
): Promise<BudgetWarning | undefined> {
  const refusals: { kind: Refusable; why: string }[] = []
  for (const sample of samplesFor(model)) {
    try {
      await boundCall(askedBy(model, sample), model.routes, { prices, at: now(), needs })
    } catch (error) {
      if (!(error instanceof UnsupportedUnderBudget)) throw error
      refusals.push({ kind: sample.kind, why: error.why })
      if (sample.kind === 'everything') break
    }
  }
  const [first] = refusals
  if (!first) return undefined
  const refuses = refusals.map(({ kind }) => kind)
  const listed = new Intl.ListFormat('en-GB').format(refuses)
  return { model: model.id, refuses, message: `${model.id} refuses ${listed} under these budgets: ${first.why}` }
}

/** Returns the warnings of models, at most `max`, under budgets that limit what `needsOf` says for each. */
async function warningsOf(
  deps: Pick<AiDeps, 'ai' | 'now'>,
  models: readonly UsableModel[],
  needsOf: (model: UsableModel) => Needs,
  max = Infinity,
): Promise<BudgetWarning[]> {
  const warnings: BudgetWarning[] = []
  for (const [place, model] of models.entries()) {
    const needs = needsOf(model)
    const warning = needs.cost || needs.tokens ? await warningOf(deps, model, needs) : undefined
    if (warning) warnings.push(warning)
    if (warnings.length >= max) break
    // There may be thousands of models, and others wait for this process.
    if (place % MODELS_AT_ONCE === MODELS_AT_ONCE - 1) await nextTurn()
  }
  return warnings
}

/**
 * Returns what the models that an organization can use refuse under budgets that limit `needs`, and under the operator's allowance:
 * of the first hundred that refuse something, in the order of the catalog.
 */
export async function findBudgetWarnings(
  deps: Pick<AiDeps, 'ai' | 'db' | 'sealer' | 'now'>,
  organizationId: string,
  needs: Needs,
): Promise<BudgetWarning[]> {
  const entitled = await isEntitled(deps, organizationId)
  const models = await usableModels(deps, {
    organizationId,
    applicationId: null,
    isEntitled: entitled,
    hasAllowance: deps.ai.catalog.freeCostNanos !== null,
    hasKeys: true,
    hasPolicies: true,
  })
  const needsOf = ({ routes: [first] }: UsableModel): Needs =>
    first?.keyOwner === 'operator' && !entitled ? { ...needs, cost: true } : needs
  return warningsOf(deps, models, needsOf, WARNINGS_MAX)
}

/** Returns what each model of the operator's file refuses under budgets of cost and tokens, whoever has the key. */
export function findCatalogWarnings(deps: Pick<AiDeps, 'ai' | 'now'>): Promise<BudgetWarning[]> {
  const models = [...deps.ai.catalog.models.values()].map((model): UsableModel => {
    const routes = model.routes.map((route) => ({
      ...route,
      key: '',
      keyOwner: route.provider.driver === 'local' ? ('local' as const) : ('organization' as const),
    }))
    return { ...model, routes }
  })
  return warningsOf(deps, models, () => ({ cost: true, tokens: true }))
}
