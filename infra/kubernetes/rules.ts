import type { Manifest } from '@platform/testkit/kubernetes-manifests'
import { policiesSelect, selectorsMatch, servicesLeadToPods, waysInLeadToServices } from './network-rules.ts'
import {
  imagesAreReleases,
  namesExist,
  podsAreReplacedOneByOne,
  podsHaveBounds,
  podsHaveNoMoreRights,
  podsSayHowTheyAre,
} from './pod-rules.ts'
import { findWrongWays } from './reach.ts'
import { ofKind, type Rule, unless } from './rule-parts.ts'
import { programsAreTheirs, variablesAgree, variablesExist } from './variable-rules.ts'

const objectsAreOnce: Rule = (manifests) => {
  const nameOf = ({ kind, metadata }: Manifest) => `${kind} ${metadata.namespace ?? ''}/${metadata.name}`
  const namespaces = new Set(
    manifests.filter(({ kind }) => kind !== 'Namespace').map(({ metadata }) => metadata.namespace),
  )
  return [
    ...manifests
      .filter((each, n) => manifests.findIndex((other) => nameOf(other) === nameOf(each)) !== n)
      .map((each) => `The ${each.kind} ${each.metadata.name} is there twice`),
    ...unless(namespaces.size === 1, 'Not everything is in one namespace'),
    ...ofKind(manifests, 'Namespace')
      .filter(({ metadata }) => metadata.labels?.['pod-security.kubernetes.io/enforce'] !== 'privileged')
      .map(({ metadata }) => `The Namespace ${metadata.name} admits no pods of edges and workers`),
  ]
}

const secretsAreNotContained: Rule = (manifests) =>
  ofKind(manifests, 'Secret').map(({ metadata }) => `The Secret ${metadata.name} is contained`)

const rules: readonly Rule[] = [
  objectsAreOnce,
  programsAreTheirs,
  variablesExist,
  variablesAgree,
  imagesAreReleases,
  namesExist,
  podsSayHowTheyAre,
  podsHaveBounds,
  podsAreReplacedOneByOne,
  podsHaveNoMoreRights,
  servicesLeadToPods,
  selectorsMatch,
  waysInLeadToServices,
  policiesSelect,
  (manifests) => findWrongWays(manifests),
  secretsAreNotContained,
]

/** Sentences about what is wrong with rendered manifests, beyond what their types say. */
export const findMistakes: Rule = (manifests, services) => rules.flatMap((rule) => rule(manifests, services))
