import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** The oldest kubectl whose kustomize renders these manifests, as [major, minor]. */
const OLDEST_KUBECTL = [1, 27] as const

interface KeyReference {
  name: string
}
/** A variable of a container. */
interface Variable {
  name: string
  value?: string
  valueFrom?: { fieldRef?: { fieldPath: string } }
}
interface Probe {
  httpGet: { path: string; port: string | number }
}
export interface Container {
  name: string
  image: string
  command?: string[]
  args: string[]
  envFrom?: { configMapRef?: KeyReference; secretRef?: KeyReference }[]
  env?: Variable[]
  ports?: { name: string; containerPort: number }[]
  startupProbe?: Probe
  livenessProbe?: Probe
  readinessProbe?: Probe
  resources?: { requests?: Record<string, string>; limits?: Record<string, string> }
  securityContext?: {
    privileged?: boolean
    runAsUser?: number
    runAsNonRoot?: boolean
    allowPrivilegeEscalation?: boolean
    readOnlyRootFilesystem?: boolean
    procMount?: string
    capabilities?: { drop?: string[]; add?: string[] }
    seccompProfile?: { type: string }
    appArmorProfile?: { type: string }
  }
  volumeMounts?: { name: string; mountPath: string }[]
}
export interface PodSpec {
  serviceAccountName?: string
  automountServiceAccountToken?: boolean
  enableServiceLinks?: boolean
  terminationGracePeriodSeconds?: number
  hostUsers?: boolean
  hostNetwork?: boolean
  hostPID?: boolean
  hostIPC?: boolean
  initContainers?: Container[]
  nodeSelector?: Record<string, string>
  tolerations?: { key: string; value: string; effect: string }[]
  topologySpreadConstraints?: { topologyKey: string; labelSelector: Selector }[]
  securityContext?: { runAsNonRoot?: boolean; runAsUser?: number; seccompProfile?: { type: string } }
  containers: Container[]
  volumes?: { name: string; emptyDir?: object; configMap?: { name: string; optional?: boolean } }[]
}
export interface Selector {
  matchLabels?: Record<string, string>
  matchExpressions?: { key: string; operator: string; values: string[] }[]
}

/** An object of the cluster, of any kind. `spec` is as rendered; who reads it knows the kind. */
export interface Manifest<Spec = unknown> {
  apiVersion: string
  kind: string
  metadata: { name: string; namespace?: string; labels?: Record<string, string> }
  spec?: Spec
  data?: Record<string, string>
}
/** A Deployment or a Job. */
export type Workload = Manifest<{
  replicas?: number
  selector: Selector
  strategy?: { rollingUpdate?: { maxUnavailable?: number | string; maxSurge?: number | string } }
  template: { metadata: { labels: Record<string, string> }; spec: PodSpec }
}> & { spec: object }

/** Why this machine cannot render: kubectl is missing or too old. undefined: it can. */
export async function findKubectlObstacle(): Promise<string | undefined> {
  try {
    const { stdout } = await run('kubectl', ['version', '--client', '-o', 'json'])
    const { clientVersion } = JSON.parse(stdout) as { clientVersion: { major: string; minor: string } }
    const [major, minor] = [Number.parseInt(clientVersion.major, 10), Number.parseInt(clientVersion.minor, 10)]
    const isOld = major < OLDEST_KUBECTL[0] || (major === OLDEST_KUBECTL[0] && minor < OLDEST_KUBECTL[1])
    return isOld
      ? `kubectl ${major}.${minor} is older than ${OLDEST_KUBECTL.join('.')}, the first that renders these manifests`
      : undefined
  } catch {
    return 'kubectl is not installed'
  }
}

/**
 * Renders a folder with a kustomization, as `kubectl apply -k` would send it. Asks no cluster. Rejects with kustomize's own words.
 */
export async function render(folder: string): Promise<Manifest[]> {
  // `kubectl kustomize` prints YAML only. This prints JSON, and sets a label of each object, which selects nothing.
  const args = ['label', '--local', '-o', 'json', '-k', folder, 'app.kubernetes.io/part-of=platform', '--overwrite']
  const { stdout } = await run('kubectl', args, { maxBuffer: 16 * 1_024 ** 2 })
  return stdout.split(/^(?=\{$)/m).map((text) => JSON.parse(text) as Manifest)
}

export const deploymentsOf = (manifests: readonly Manifest[]): Workload[] =>
  manifests.filter(({ kind }) => kind === 'Deployment') as Workload[]

/** Deployments and Jobs: all that makes pods. */
export const workloadsOf = (manifests: readonly Manifest[]): Workload[] =>
  manifests.filter(({ kind }) => kind === 'Deployment' || kind === 'Job') as Workload[]

/** The one container of a workload's pods. Throws if there are more, or none. */
export function containerOf({ metadata, spec }: Workload): Container {
  const [container, ...others] = spec.template.spec.containers
  if (!container || others.length > 0) throw new Error(`${metadata.name} has not one container`)
  return container
}

/** Whether a selector selects pods with these labels. */
export function doesSelect(
  { matchLabels = {}, matchExpressions = [] }: Selector,
  labels: Record<string, string>,
): boolean {
  return (
    Object.entries(matchLabels).every(([key, value]) => labels[key] === value) &&
    matchExpressions.every(({ key, operator, values }) => operator === 'In' && values.includes(labels[key] ?? ''))
  )
}

/** What a cluster tells a pod of Services: of its own API server always, of others in the namespace unless the pod declines. */
function serviceLinksOf(manifests: readonly Manifest[], pod: PodSpec): Record<string, string> {
  const services = [{ name: 'kubernetes', ports: [{ name: 'https', port: 443 }] }]
  if (pod.enableServiceLinks !== false)
    for (const { kind, metadata, spec } of manifests)
      if (kind === 'Service')
        services.push({ name: metadata.name, ports: (spec as { ports: { name: string; port: number }[] }).ports })
  return Object.assign(
    {},
    ...services.map(({ name, ports }, n) => {
      const prefix = name.toUpperCase().replaceAll('-', '_')
      const host = `10.96.0.${n + 1}`
      return {
        [`${prefix}_SERVICE_HOST`]: host,
        [`${prefix}_SERVICE_PORT`]: String(ports[0]?.port),
        [`${prefix}_PORT`]: `tcp://${host}:${ports[0]?.port}`,
        ...Object.fromEntries(
          ports.map((port) => [`${prefix}_SERVICE_PORT_${port.name.toUpperCase()}`, String(port.port)]),
        ),
        ...Object.fromEntries(ports.map(({ port }) => [`${prefix}_PORT_${port}_TCP`, `tcp://${host}:${port}`])),
      }
    }),
  )
}

/** What a pod learns of where it runs, by the path of the field, such as `status.podIP`. */
export type PodFields = Readonly<Record<string, string>>

/**
 * The variables that a workload's container starts with: what the cluster tells of Services, ConfigMaps, Secrets, and its own, which win.
 * secrets: what the named Secrets hold. Throws if a ConfigMap, Secret or field is missing.
 */
export function variablesOf(
  workload: Workload,
  manifests: readonly Manifest[],
  secrets: Readonly<Record<string, Record<string, string>>>,
  fields: PodFields,
): Record<string, string> {
  const pod = workload.spec.template.spec
  const variables = serviceLinksOf(manifests, pod)
  const { envFrom = [], env = [] } = containerOf(workload)
  for (const { configMapRef, secretRef } of envFrom) {
    const values = configMapRef
      ? manifests.find(({ kind, metadata }) => kind === 'ConfigMap' && metadata.name === configMapRef.name)?.data
      : secrets[secretRef?.name ?? '']
    if (!values) throw new Error(`${workload.metadata.name}: there is no ${configMapRef?.name ?? secretRef?.name}`)
    Object.assign(variables, values)
  }
  for (const { name, value, valueFrom } of env) {
    const path = valueFrom?.fieldRef?.fieldPath
    const own = path === undefined ? value : fields[path]
    if (own === undefined) throw new Error(`${workload.metadata.name}: ${name} has no value`)
    // Only variables before this one are put in.
    variables[name] = own.replace(/\$\((\w+)\)/g, (whole, other: string) => variables[other] ?? whole)
  }
  return variables
}
