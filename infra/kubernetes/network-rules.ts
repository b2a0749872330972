import { deploymentsOf, doesSelect, type Manifest } from '@platform/testkit/kubernetes-manifests'
import { type Backend, isOfKind, ofKind, portNames, type Rule, selectedBy, unless } from './rule-parts.ts'

export const servicesLeadToPods: Rule = (manifests) =>
  ofKind(manifests, 'Service').flatMap((service) => {
    const { selector, ports } = service.spec
    const pods = selectedBy({ matchLabels: selector }, manifests)
    if (pods.length === 0) return [`The Service ${service.metadata.name} selects no pods`]
    return ports
      .filter(({ targetPort }) => !pods.every((pod) => portNames(pod).includes(targetPort)))
      .map(
        ({ targetPort }) =>
          `The Service ${service.metadata.name} leads to a port ${targetPort}, which its pods have not`,
      )
  })

export const selectorsMatch: Rule = (manifests) => [
  ...deploymentsOf(manifests)
    .filter(({ spec }) => !doesSelect(spec.selector, spec.template.metadata.labels))
    .map(({ metadata }) => `${metadata.name} does not select its own pods`),
  ...ofKind(manifests, 'PodDisruptionBudget')
    .filter((budget) => selectedBy(budget.spec.selector, manifests).length === 0)
    .map(({ metadata }) => `The PodDisruptionBudget ${metadata.name} selects no pods`),
  ...ofKind(manifests, 'HorizontalPodAutoscaler').flatMap((scaler) => {
    const { scaleTargetRef, minReplicas, maxReplicas } = scaler.spec
    const { kind, name } = scaleTargetRef
    const target = deploymentsOf(manifests).find((each) => each.kind === kind && each.metadata.name === name)
    if (!target) return [`The autoscaler ${scaler.metadata.name} has nothing to scale`]
    return [
      ...unless(
        minReplicas > 1 && maxReplicas >= minReplicas,
        `The autoscaler ${scaler.metadata.name} leaves ${name} one pod, or none`,
      ),
      ...unless(
        target.spec.replicas === undefined,
        `Each release sets the replicas of ${name}, which its autoscaler sets`,
      ),
    ]
  }),
]

/** The services that routes and ingresses lead to. */
function backendsOf(manifest: Manifest): Backend[] {
  if (isOfKind(manifest, 'HTTPRoute')) return manifest.spec.rules.flatMap(({ backendRefs }) => backendRefs)
  if (!isOfKind(manifest, 'Ingress')) return []
  return manifest.spec.rules.flatMap(({ http }) => http.paths.map(({ backend }) => backend.service))
}

export const waysInLeadToServices: Rule = (manifests) => {
  const sections = new Set(
    ofKind(manifests, 'Gateway').flatMap((gateway) =>
      gateway.spec.listeners.map(({ name }) => `${gateway.metadata.name} ${name}`),
    ),
  )
  const used = new Set(
    ofKind(manifests, 'HTTPRoute').flatMap((route) =>
      route.spec.parentRefs.map(({ name, sectionName }) => `${name} ${sectionName}`),
    ),
  )
  const idle = [...sections].filter((section) => !used.has(section)).map((section) => `No route belongs to ${section}`)
  const unset = manifests
    .filter(({ kind, spec }) => ['Gateway', 'Ingress'].includes(kind) && /"(\*\.)?unset"/.test(JSON.stringify(spec)))
    .map(({ kind, metadata }) => `The ${kind} ${metadata.name} has a host that no variable sets`)
  const lost = manifests.flatMap((each) => {
    const wrong = backendsOf(each).filter(({ name, port }) => {
      const service = ofKind(manifests, 'Service').find(({ metadata }) => metadata.name === name)
      const wanted = typeof port === 'object' ? (port.name ?? port.number) : port
      return !service || !service.spec.ports.some((own) => own.port === wanted || own.name === wanted)
    })
    const parents = isOfKind(each, 'HTTPRoute') ? each.spec.parentRefs : []
    return [
      ...wrong.map(({ name }) => `The ${each.kind} ${each.metadata.name} leads to no port of a Service ${name}`),
      ...parents
        .filter(({ name, sectionName }) => !sections.has(`${name} ${sectionName}`))
        .map(({ sectionName }) => `The ${each.kind} ${each.metadata.name} belongs to no listener ${sectionName}`),
    ]
  })
  return [...lost, ...idle, ...unset]
}

export const policiesSelect: Rule = (manifests) =>
  ofKind(manifests, 'NetworkPolicy').flatMap((policy) => {
    const { podSelector, egress = [] } = policy.spec
    const ports = egress.flatMap((rule) => rule.ports ?? [])
    return [
      ...unless(
        selectedBy(podSelector, manifests).length > 0,
        `The NetworkPolicy ${policy.metadata.name} selects no pods`,
      ),
      // Plugins look such a name up among all pods of the cluster, where it means several numbers.
      ...unless(
        ports.every(({ port }) => typeof port !== 'string'),
        `The NetworkPolicy ${policy.metadata.name} leads to a port by name`,
      ),
    ]
  })
