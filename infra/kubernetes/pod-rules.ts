import {
  type Container,
  containerOf,
  deploymentsOf,
  doesSelect,
  type PodSpec,
  workloadsOf,
} from '@platform/testkit/kubernetes-manifests'
import { exampleFields, exampleSecrets, ofKind, podOf, portNames, type Rule, startsWith, unless } from './rule-parts.ts'

/** Root within a user namespace, to wall in Functions and builds. */
const SANDBOXED = ['edge', 'worker']
const CAPABILITIES = ['SYS_ADMIN', 'NET_ADMIN', 'SETUID', 'SETGID', 'CHOWN', 'FOWNER', 'KILL', 'DAC_OVERRIDE']
/** Notice and draining of a process that stops, and a second for the rest. */
const GRACE_SECONDS_MIN = 5 + 25 + 1

export const imagesAreReleases: Rule = (manifests) =>
  workloadsOf(manifests).flatMap((workload) => {
    const { image } = containerOf(workload)
    return unless(
      /:(?!latest$|unset$)[\w.-]+$/.test(image),
      `${workload.metadata.name}: the image ${image} names no release`,
    )
  })

export const namesExist: Rule = (manifests) =>
  workloadsOf(manifests).flatMap((workload) => {
    const { metadata } = workload
    const { serviceAccountName = '', volumes = [] } = podOf(workload)
    const { volumeMounts = [], envFrom = [] } = containerOf(workload)
    return [
      ...unless(
        ofKind(manifests, 'ServiceAccount').some((account) => account.metadata.name === serviceAccountName),
        `${metadata.name}: there is no ServiceAccount ${serviceAccountName}`,
      ),
      ...volumeMounts
        .filter(({ name }) => !volumes.some((volume) => volume.name === name))
        .map(({ name }) => `${metadata.name}: there is no volume ${name}`),
      ...volumes
        .filter(({ emptyDir, configMap }) => !emptyDir && !configMap)
        .map(({ name }) => `${metadata.name}: the volume ${name} is neither of the pod alone nor a ConfigMap`),
      ...envFrom
        .filter(({ secretRef }) => secretRef && !Object.hasOwn(exampleSecrets, secretRef.name))
        .map(({ secretRef }) => `${metadata.name}: docs/kubernetes.md names no Secret ${secretRef?.name}`),
    ]
  })

export const podsSayHowTheyAre: Rule = (manifests) =>
  deploymentsOf(manifests).flatMap((workload) => {
    const container = containerOf(workload)
    const probes = { startupProbe: '/live', livenessProbe: '/live', readinessProbe: '/ready' } as const
    return Object.entries(probes).flatMap(([name, path]) => {
      const get = container[name as keyof typeof probes]?.httpGet
      return unless(
        get?.path === path && get.port === 'health' && portNames(workload).includes('health'),
        `${workload.metadata.name}: ${name} does not ask ${path} on the port health`,
      )
    })
  })

export const podsHaveBounds: Rule = (manifests) =>
  workloadsOf(manifests).flatMap((workload) => {
    const { requests = {}, limits = {} } = containerOf(workload).resources ?? {}
    return ['cpu', 'memory'].flatMap((what) => [
      ...unless(requests[what] !== undefined, `${workload.metadata.name} requests no ${what}`),
      ...unless(limits[what] !== undefined, `${workload.metadata.name} has no limit of ${what}`),
    ])
  })

export const podsAreReplacedOneByOne: Rule = (manifests) =>
  deploymentsOf(manifests).flatMap((workload) => {
    const { metadata, spec } = workload
    const { terminationGracePeriodSeconds = 30, topologySpreadConstraints = [] } = podOf(workload)
    const { labels } = spec.template.metadata
    const budgets = ofKind(manifests, 'PodDisruptionBudget').map(({ spec: budget }) => budget)
    return [
      ...unless(
        spec.strategy?.rollingUpdate?.maxUnavailable === 0 && spec.strategy.rollingUpdate.maxSurge === 1,
        `${metadata.name}: a pod goes before its successor is ready`,
      ),
      ...unless(terminationGracePeriodSeconds >= GRACE_SECONDS_MIN, `${metadata.name} is killed before it has stopped`),
      ...unless(
        topologySpreadConstraints.some(
          (each) => each.topologyKey === 'kubernetes.io/hostname' && doesSelect(each.labelSelector, labels),
        ),
        `${metadata.name} is not spread over nodes`,
      ),
      ...unless(
        budgets.some((budget) => budget.maxUnavailable === 1 && doesSelect(budget.selector, labels)),
        `${metadata.name} has no PodDisruptionBudget of one pod`,
      ),
    ]
  })

export const podsHaveNoMoreRights: Rule = (manifests) =>
  workloadsOf(manifests).flatMap((workload) => {
    const { name } = workload.metadata
    const pod = podOf(workload)
    const container = containerOf(workload)
    const wrong = SANDBOXED.includes(name)
      ? wrongInSandboxed(pod, container, startsWith(workload, manifests))
      : wrongInRestricted(pod, container)
    return [
      ...unless(pod.automountServiceAccountToken === false, 'has a token of its ServiceAccount'),
      ...unless(container.securityContext?.privileged !== true, 'is privileged'),
      ...unless(!pod.hostNetwork && !pod.hostPID && !pod.hostIPC, 'shares a namespace with its node'),
      ...unless(pod.initContainers === undefined, 'has further containers'),
      ...wrong,
    ].map((what) => `${name} ${what}`)
  })

/** Kubernetes' profile `restricted`, and a root file system that cannot be written, but for /tmp. */
function wrongInRestricted(pod: PodSpec, container: Container): string[] {
  const own = { ...pod.securityContext, ...container.securityContext }
  const { drop = [], add = [] } = own.capabilities ?? {}
  return [
    ...unless(own.runAsNonRoot === true && (own.runAsUser ?? 0) > 0, 'may be root'),
    ...unless(own.allowPrivilegeEscalation === false, 'may gain rights'),
    ...unless(own.readOnlyRootFilesystem === true, 'may write its root'),
    ...unless(
      container.args[1]?.endsWith('/cli.ts') || mountsOf(container).includes('/tmp'),
      'has no /tmp to write to',
    ),
    ...unless(drop.includes('ALL') && add.length === 0, 'has capabilities'),
    ...unless(own.seccompProfile?.type === 'RuntimeDefault', 'has no filter of system calls'),
  ]
}

/** What the sandbox needs, within a user namespace, on nodes for nothing else. */
function wrongInSandboxed(pod: PodSpec, container: Container, variables: Record<string, string>): string[] {
  const own = { ...pod.securityContext, ...container.securityContext }
  const { drop = [], add = [] } = own.capabilities ?? {}
  const folder = variables['FUNCTIONS_FOLDER'] ?? ''
  return [
    ...unless(pod.hostUsers === false, 'has no user namespace: hostUsers is not false'),
    ...unless(variables['REQUIRE_USER_NAMESPACE'] === 'true', 'would start without a user namespace'),
    ...unless(variables['FUNCTION_SANDBOX'] === 'required', 'would run Functions without walls'),
    ...unless((variables['FUNCTION_EGRESS'] ?? 'public') !== 'host', 'lets Functions reach whatever it reaches'),
    ...unless(variables['FUNCTION_NETWORK'] === 'veth', 'has no network for Functions: FUNCTION_NETWORK is not veth'),
    ...unless(
      variables['MACHINE_ADDRESSES'] === exampleFields['status.hostIPs'],
      'lets Functions reach its node: MACHINE_ADDRESSES are not those of the host',
    ),
    ...unless(own.procMount === 'Unmasked', 'cannot mount /proc: procMount is not Unmasked'),
    ...unless(own.runAsUser === 0, 'is not root of its namespace'),
    ...unless(
      drop.includes('ALL') && add.toSorted().join() === CAPABILITIES.toSorted().join(),
      `has other capabilities than ${CAPABILITIES.join(', ')}`,
    ),
    ...unless(
      own.seccompProfile?.type === 'Unconfined' && own.appArmorProfile?.type === 'Unconfined',
      'has a profile that refuses mount and pivot_root',
    ),
    ...unless(own.readOnlyRootFilesystem !== true, 'has a root that the sandbox cannot write'),
    ...unless(
      own.allowPrivilegeEscalation !== false,
      'may not gain rights, which an API server refuses beside SYS_ADMIN',
    ),
    // Everybody may write to a volume itself.
    ...unless(
      mountsOf(container).some((mount) => folder.startsWith(`${mount}/`)),
      'keeps files of Functions on no volume: FUNCTIONS_FOLDER is below none',
    ),
    ...unless(
      Object.entries(pod.nodeSelector ?? {}).some(([key, value]) =>
        pod.tolerations?.some((each) => each.key === key && each.value === value && each.effect === 'NoSchedule'),
      ),
      'is not on nodes of its own',
    ),
  ]
}
const mountsOf = ({ volumeMounts = [] }: Container): string[] => volumeMounts.map(({ mountPath }) => mountPath)
