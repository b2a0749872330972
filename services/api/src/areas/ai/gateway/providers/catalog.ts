import { PROVIDER_KEY } from '../../governance/key-format.ts'
import { priceFrom } from '../../governance/prices.ts'
import { type ProviderFile, WrongProviderFile } from './provider-file.ts'
import type { Model, Provider } from './model.ts'
import { localModels, localProvider } from '../local/local-models.ts'

/** The providers and models of the operator's file and of the platform itself. */
export interface Catalog {
  readonly providers: ReadonlyMap<string, Provider>
  readonly models: ReadonlyMap<string, Model>
  /** Monthly (UTC) allowance of the operator's keys for organizations without entitlement, in nano-USD; null: none (D111). */
  readonly freeCostNanos: bigint | null
}

const NANOS_PER_MICRO = 1_000n

/**
 * readVariable: reads the environment variable that a provider's `keyEnv` names. Throws WrongProviderFile if its value cannot be
 * sent in a header.
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
