import { PROVIDER_KEY } from '../../ai-governance/key-format.ts'
import { priceFrom } from '../../ai-governance/prices.ts'
import { type ProviderFile, WrongProviderFile } from './provider-file.ts'
import type { Model, Provider } from './model.ts'
import { localModels, localProvider } from '../local/local-models.ts'

/** What the operator's file and the platform itself offer. */
export interface Catalog {
  readonly providers: ReadonlyMap<string, Provider>
  readonly models: ReadonlyMap<string, Model>
  /** What an organization without an entitlement may use of the operator's keys in a UTC month, in nano-USD; null: nothing (D111). */
  readonly freeCostNanos: bigint | null
}

const NANOS_PER_MICRO = 1_000n

/**
 * readVariable: the variable of the environment that a provider's `keyEnv` names. Throws WrongProviderFile for a variable that holds
 * what no header can.
 */
export function createCatalog(
  file: ProviderFile | undefined,
  readVariable: (name: string) => string | undefined,
): Catalog {
  const providers = new Map<string, Provider>([[localProvider.id, localProvider]])
  for (const { keyEnv, ...entry } of file?.providers ?? []) {
    const key = keyEnv === undefined ? undefined : readVariable(keyEnv)
    const operatorKey = key === undefined || key === '' ? undefined : key
    if (operatorKey !== undefined && !PROVIDER_KEY.test(operatorKey))
      throw new WrongProviderFile(`The variable ${keyEnv} holds no key: printable ASCII without spaces was expected`)
    providers.set(entry.id, { ...entry, name: entry.name ?? entry.id, responses: entry.responses, operatorKey })
  }
  const models = new Map(localModels.map((model): [string, Model] => [model.id, model]))
  for (const { id, name = id, routes, capabilities, ...entry } of file?.models ?? []) {
    models.set(id, {
      id,
      name,
      description: entry.description ?? null,
      created: entry.created ?? null,
      ownedBy: id.includes('/') ? id.slice(0, id.indexOf('/')) : (routes[0]?.provider ?? id),
      modalities: entry.modalities ?? { input: [], output: [] },
      capabilities: {
        chat: capabilities?.chat ?? null,
        streaming: capabilities?.streaming ?? null,
        tools: capabilities?.tools ?? null,
        vision: capabilities?.vision ?? null,
        json_mode: capabilities?.json_mode ?? null,
      },
      contextWindow: entry.contextWindow ?? null,
      maxOutputTokens: entry.maxOutputTokens ?? null,
      routes: routes.flatMap(({ provider: providerId, ...route }) => {
        const provider = providers.get(providerId)
        return provider ? [{ ...route, provider, price: route.price && priceFrom(route.price) }] : []
      }),
    })
  }
  const freeCostMicros = file?.freeCostMicros ?? 0
  const freeCostNanos = freeCostMicros > 0 ? BigInt(freeCostMicros) * NANOS_PER_MICRO : null
  return { providers, models, freeCostNanos }
}
