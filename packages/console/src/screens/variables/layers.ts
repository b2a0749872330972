import type { Application, EnvironmentVariable, Organization } from '@platform/sdk'

/** What the page is about. application: undefined on the page of an organization. */
export interface Place {
  organization: Organization
  application: Application | undefined
  /** Any application of the organization, as `acme/shop`, for the command line; undefined while there is none. */
  path: string | undefined
}

export const environments = ['production', 'preview'] as const
export type Environment = (typeof environments)[number]

/** Where a variable is kept: for all applications, for one in both environments, or for one environment of it. */
export type Layer = 'organization' | 'application' | Environment

export const layerWords: Record<Layer, string> = {
  organization: 'Organization',
  application: 'Application',
  production: 'Production',
  preview: 'Preview',
}

/** In the middle of a sentence, such as `Hidden by preview`. */
export const layerPhrases: Record<Layer, string> = {
  organization: 'the organization',
  application: 'the application',
  production: 'production',
  preview: 'preview',
}

/** An environment's name is its slug with a capital letter; the slug itself takes another scope to see. */
export const layerOf = ({ scope, environmentName }: Pick<EnvironmentVariable, 'scope' | 'environmentName'>): Layer =>
  scope === 'environment' ? (environmentName?.toLowerCase() as Environment) : scope

/** The higher one wins (A §4: environment over application over organization). */
const ranks: Record<Layer, number> = { organization: 0, application: 1, production: 2, preview: 2 }

/** All variables of one name that reach an environment. */
export interface MergedVariable {
  key: string
  /** The one that a deployment gets. */
  winner: EnvironmentVariable
  /** The others, from the nearest layer to the widest. */
  hidden: EnvironmentVariable[]
}

/** What a deployment in an environment gets, by key. Of a layer other than an environment: what it gives to both. */
export function mergeLayers(variables: readonly EnvironmentVariable[], upTo: Layer): MergedVariable[] {
  const isIn = (layer: Layer): boolean => layer === upTo || ranks[layer] < ranks[upTo]
  const byKey = Map.groupBy(
    variables.filter((variable) => isIn(layerOf(variable))),
    ({ key }) => key,
  )
  return [...byKey]
    .flatMap(([key, all]) => {
      const [winner, ...hidden] = all.toSorted((one, other) => ranks[layerOf(other)] - ranks[layerOf(one)])
      return winner ? [{ key, winner, hidden }] : []
    })
    .sort((one, other) => (one.key < other.key ? -1 : 1))
}
