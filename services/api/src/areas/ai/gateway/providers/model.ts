import type { Price } from '../../governance/prices.ts'

/** A service that runs models. */
export interface Provider {
  readonly id: string
  readonly name: string
  readonly driver: 'openai-compatible' | 'anthropic' | 'local'
  /** Without a trailing slash; undefined for the local one. */
  readonly baseUrl: URL | undefined
  /** The operator's key; undefined: only organizations with keys of their own can use it. */
  readonly operatorKey: string | undefined
  /** True if it stores nothing of a request. */
  readonly zdr: boolean
  /** True if it may be sent the URLs in a request. */
  readonly fetchesUrls: boolean
  readonly streamUsage: 'include' | 'always' | 'never'
  /** Whether it has /responses; undefined: unknown. */
  readonly responses: boolean | undefined
  readonly contentHosts: readonly string[]
  /** Top-level members of requests that change neither price nor tokens there, by the operator's word. */
  readonly unpriced: readonly string[]
}

/** A provider's model behind one of our models. */
export interface Route {
  readonly provider: Provider
  readonly upstreamModel: string
  readonly weight: number
  readonly capParameter: 'max_tokens' | 'max_completion_tokens' | 'max_output_tokens'
  /** The operator's own price; undefined: use the known price of the provider's model. */
  readonly price: Price | undefined
  readonly bounds: RouteBounds
}

/** Maximum input tokens of one image, one file and a second of audio, and the maximum length of a recording. */
interface RouteBounds {
  readonly image?: number | undefined
  readonly file?: number | undefined
  readonly audioSecond?: number | undefined
  /** In seconds. */
  readonly fileSeconds?: number | undefined
}

/** Identifies a route: provider and upstream model. */
export const routeName = ({ provider, upstreamModel }: Pick<Route, 'provider' | 'upstreamModel'>): string =>
  `${provider.id} ${upstreamModel}`

/** A model as callers name it. Members missing from its entry are null. */
export interface Model {
  readonly id: string
  readonly name: string
  readonly description: string | null
  /** Seconds since 1970. */
  readonly created: number | null
  readonly ownedBy: string
  readonly modalities: { readonly input: readonly string[]; readonly output: readonly string[] }
  readonly capabilities: Readonly<Record<'chat' | 'streaming' | 'tools' | 'vision' | 'json_mode', boolean | null>>
  readonly contextWindow: number | null
  readonly maxOutputTokens: number | null
  readonly routes: readonly Route[]
}
