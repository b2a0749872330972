import {
  containerOf,
  doesSelect,
  type Manifest,
  type PodSpec,
  type Selector,
  variablesOf,
  type Workload,
  workloadsOf,
} from '@platform/testkit/kubernetes-manifests'

/** What a service says of its variables: its config.ts. */
export interface ServiceVariables {
  variables: readonly string[]
  /** Throws an error with a sentence. */
  loadConfig(env: Record<string, string | undefined>): object
}

/** A rule: its sentences about what is wrong, none if nothing is. */
export type Rule = (
  manifests: readonly Manifest[],
  services: Readonly<Record<'api' | 'idp', ServiceVariables>>,
) => string[]

/** What the Secrets of the two services hold, in the least case. */
export const exampleSecrets = {
  api: {
    DATABASE_URL: 'postgres://api:secret@postgres.engines:5432/api',
    MASTER_KEYS: `k1:${Buffer.alloc(32).toString('base64')}`,
    OBJECTS_URL: 's3://key:secret@objects?endpoint=http://store.engines:8333',
    REDIS_URL: 'redis://redis.engines:6379',
    MAIL_URL: 'smtps://robot:secret@mail.example.com',
  },
  idp: {
    DATABASE_URL: 'postgres://idp:secret@postgres.engines:5432/idp',
    MASTER_KEYS: `k1:${Buffer.alloc(32, 1).toString('base64')}`,
    REDIS_URL: 'redis://redis.engines:6379',
    MAIL_URL: 'smtps://robot:secret@mail.example.com',
  },
}
export const exampleFields = { 'status.podIP': '10.244.1.7', 'status.hostIPs': '10.0.3.7,2001:db8::7' }

interface Port {
  name: string
  port: number
  targetPort: string
}

interface Parent {
  name: string
  sectionName: string
}
export interface Backend {
  name: string
  port: number | { name?: string; number?: number }
}

export const podOf = ({ spec }: Workload): PodSpec => spec.template.spec
export const portNames = (workload: Workload): string[] => (containerOf(workload).ports ?? []).map(({ name }) => name)

/** What the rules read of the kinds that are no workloads. */
interface Specs {
  Service: { selector: Record<string, string>; ports: Port[] }
  PodDisruptionBudget: { selector: Selector; maxUnavailable: number }
  HorizontalPodAutoscaler: {
    scaleTargetRef: { kind: string; name: string }
    minReplicas: number
    maxReplicas: number
  }
  Gateway: { listeners: { name: string }[] }
  HTTPRoute: { parentRefs: Parent[]; rules: { backendRefs: Backend[] }[] }
  Ingress: { rules: { http: { paths: { backend: { service: Backend } }[] } }[] }
  NetworkPolicy: { podSelector: Selector; egress?: { ports?: { port?: string | number }[] }[] }
}
export type OfKind<Kind extends string> = Manifest & { spec: Kind extends keyof Specs ? Specs[Kind] : unknown }
export const isOfKind = <Kind extends string>(manifest: Manifest, kind: Kind): manifest is OfKind<Kind> =>
  manifest.kind === kind
export const ofKind = <Kind extends string>(manifests: readonly Manifest[], kind: Kind): OfKind<Kind>[] =>
  manifests.filter((each) => isOfKind(each, kind))

/** A rule's answer: nothing if it holds, else its sentence. */
export const unless = (holds: boolean, sentence: string): string[] => (holds ? [] : [sentence])

/** The workloads whose pods a selector selects. */
export const selectedBy = (selector: Selector, manifests: readonly Manifest[]): Workload[] =>
  workloadsOf(manifests).filter(({ spec }) => doesSelect(selector, spec.template.metadata.labels))

/** The variables that a workload starts with. */
export const startsWith = (workload: Workload, manifests: readonly Manifest[]): Record<string, string> =>
  variablesOf(workload, manifests, exampleSecrets, exampleFields)
