import { readdirSync } from 'node:fs'
import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { isCi } from '@platform/testkit/test-environment'
import { unless } from '@platform/test-runner/task-meta'
import { beforeAll, describe, expect, test } from 'vitest'
import { parse, stringify } from 'yaml'
import { checkTypes } from './check-types.ts'
import {
  type Container,
  containerOf,
  findKubectlObstacle,
  type Manifest,
  render,
  type Workload,
} from '@platform/testkit/kubernetes-manifests'
import type { ServiceVariables } from './rule-parts.ts'
import { findMistakes } from './rules.ts'

const obstacle = await findKubectlObstacle()
if (isCi && obstacle !== undefined) throw new Error(`${obstacle}, and in CI it has to be there`)

const readVariables = async (service: 'api' | 'idp'): Promise<ServiceVariables> =>
  (await import(new URL(`../../services/${service}/src/config.ts`, import.meta.url).href)) as ServiceVariables
const services = { api: await readVariables('api'), idp: await readVariables('idp') }

/** Renders a copy of overlays/example, as an operator makes one, with further components, by the names of their folders. */
async function renderExample(...components: string[]): Promise<Manifest[]> {
  const overlay = join(import.meta.dirname, 'overlays/example')
  const folder = await mkdtemp(join(tmpdir(), 'platform-overlay-'))
  try {
    await cp(overlay, folder, { recursive: true })
    const file = join(folder, 'kustomization.yaml')
    const kustomization = parse(await readFile(file, 'utf8')) as { resources: string[]; components: string[] }
    // kustomize takes no absolute paths.
    const fromCopy = (path: string) => (path.startsWith('../') ? relative(folder, join(overlay, path)) : path)
    const all = new Set([...kustomization.components, ...components.map((name) => `../../components/${name}`)])
    await writeFile(
      file,
      stringify({
        ...kustomization,
        resources: kustomization.resources.map(fromCopy),
        components: [...all].map(fromCopy),
      }),
    )
    return await render(folder)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

const overlays = readdirSync(join(import.meta.dirname, 'overlays'))
const components = readdirSync(join(import.meta.dirname, 'components'))

// oxlint-disable-next-line typescript/no-explicit-any -- mistakes are planted in objects of all kinds
const find = <Spec = any>(
  manifests: readonly Manifest[],
  kind: string,
  name: string,
): Manifest<Spec> & { spec: Spec } => {
  const found = manifests.find(
    (each) => each.kind === kind && each.metadata.name.replace(/-[a-z0-9]{10}$/, '') === name,
  )
  if (!found) throw new Error(`There is no ${kind} ${name}`)
  return found as Manifest<Spec> & { spec: Spec }
}
const deployment = (manifests: readonly Manifest[], name: string) =>
  find<Workload['spec']>(manifests, 'Deployment', name)
const podOf = (manifests: readonly Manifest[], name: string) => deployment(manifests, name).spec.template.spec
const container = (manifests: readonly Manifest[], name: string): Container => containerOf(deployment(manifests, name))
const variables = (manifests: readonly Manifest[], name: string) =>
  find(manifests, 'ConfigMap', name).data as Record<string, string>
const setVariable = (manifests: readonly Manifest[], workload: string, name: string, value: string) => {
  const variable = container(manifests, workload).env?.find((each) => each.name === name)
  if (variable) variable.value = value
}

/** A mistake: what makes it, in rendered manifests, and the one sentence that tells of it. */
interface Mistake {
  what: string
  make(manifests: Manifest[]): void
  sentence: string | RegExp
}
const mistakes: Mistake[] = [
  {
    what: 'livenesProbe',
    make: (all) =>
      Object.assign(container(all, 'idp'), { livenesProbe: { httpGet: { path: '/live', port: 'health' } } }),
    sentence: /livenesProbe.* does not exist in type/,
  },
  {
    what: 'a field of another version of the Gateway API',
    make: (all) =>
      Object.assign(find(all, 'Gateway', 'platform').spec.listeners[0], { hostnames: ['api.example.com'] }),
    sentence: /hostnames.* does not exist in type/,
  },
  {
    what: 'a probe of a mistyped port',
    make: (all) => Object.assign(container(all, 'api').readinessProbe?.httpGet ?? {}, { port: 'heatlh' }),
    sentence: 'api: readinessProbe does not ask /ready on the port health',
  },
  {
    what: 'a Service with a mistyped port',
    make: (all) => Object.assign(find(all, 'Service', 'edge').spec.ports[0], { targetPort: 'htpt' }),
    sentence: 'The Service edge leads to a port htpt, which its pods have not',
  },
  {
    what: 'a Service that selects nothing',
    make: (all) => Object.assign(find(all, 'Service', 'idp').spec, { selector: { 'app.kubernetes.io/name': 'id' } }),
    sentence: 'The Service idp selects no pods',
  },
  {
    what: 'a route to a port that its Service has not',
    make: (all) => Object.assign(find(all, 'HTTPRoute', 'console').spec.rules[0].backendRefs[0], { port: 4030 }),
    sentence: 'The HTTPRoute console leads to no port of a Service api',
  },
  {
    what: 'a port that nothing listens on',
    make: (all) => Object.assign(container(all, 'edge').ports?.[0] ?? {}, { containerPort: 4020 }),
    sentence: 'edge: nothing listens on the port http, 4020',
  },
  {
    what: 'a variable of an older release',
    make: (all) => Object.assign(variables(all, 'api'), { APPS_DOMAIN: 'apps.example.net' }),
    sentence: 'api: there is no variable APPS_DOMAIN',
  },
  {
    what: 'a mistyped variable',
    make: (all) => Object.assign(variables(all, 'idp'), { AUDIENCE: 'https://api.example.com' }),
    sentence: 'idp: there is no variable AUDIENCE',
  },
  {
    what: 'a value that the service refuses',
    make: (all) => setVariable(all, 'edge', 'EDGE_INTERNAL_URL', 'https://$(POD_IP):4005'),
    sentence: /^edge: EDGE_INTERNAL_URL is not valid/,
  },
  {
    what: 'variables of Services in a pod',
    make: (all) => delete podOf(all, 'api').enableServiceLinks,
    sentence: /^api: EDGE_PORT is not valid/,
  },
  {
    what: 'hostUsers gone',
    make: (all) => delete podOf(all, 'edge').hostUsers,
    sentence: 'edge has no user namespace: hostUsers is not false',
  },
  {
    what: 'procMount gone',
    make: (all) => delete container(all, 'worker').securityContext?.procMount,
    sentence: 'worker cannot mount /proc: procMount is not Unmasked',
  },
  {
    what: 'a capability more',
    make: (all) => container(all, 'edge').securityContext?.capabilities?.add?.push('SYS_PTRACE'),
    sentence:
      'edge has other capabilities than SYS_ADMIN, NET_ADMIN, SETUID, SETGID, CHOWN, FOWNER, KILL, DAC_OVERRIDE',
  },
  {
    what: 'FUNCTION_NETWORK=pasta',
    make: (all) => setVariable(all, 'worker', 'FUNCTION_NETWORK', 'pasta'),
    sentence: 'worker has no network for Functions: FUNCTION_NETWORK is not veth',
  },
  {
    what: 'a root that can be written',
    make: (all) => delete container(all, 'idp').securityContext?.readOnlyRootFilesystem,
    sentence: 'idp may write its root',
  },
  {
    what: 'a root that the sandbox cannot write',
    make: (all) => Object.assign(container(all, 'edge').securityContext ?? {}, { readOnlyRootFilesystem: true }),
    sentence: 'edge has a root that the sandbox cannot write',
  },
  {
    what: 'SYS_ADMIN without a way to gain rights',
    make: (all) => Object.assign(container(all, 'worker').securityContext ?? {}, { allowPrivilegeEscalation: false }),
    sentence: 'worker may not gain rights, which an API server refuses beside SYS_ADMIN',
  },
  {
    what: 'the image `latest`',
    make: (all) => Object.assign(container(all, 'worker'), { image: 'registry.example.com/platform:latest' }),
    sentence: 'worker: the image registry.example.com/platform:latest names no release',
  },
  {
    what: 'a limit gone',
    make: (all) => delete container(all, 'api').resources?.limits?.memory,
    sentence: 'api has no limit of memory',
  },
  {
    what: 'a grace that is too short',
    make: (all) => Object.assign(podOf(all, 'edge'), { terminationGracePeriodSeconds: 30 }),
    sentence: 'edge is killed before it has stopped',
  },
  {
    what: 'pods that go before their successors are ready',
    make: (all) => Object.assign(deployment(all, 'api').spec.strategy?.rollingUpdate ?? {}, { maxUnavailable: 1 }),
    sentence: 'api: a pod goes before its successor is ready',
  },
  {
    what: 'a budget that selects nothing',
    make: (all) =>
      Object.assign(find(all, 'PodDisruptionBudget', 'worker').spec.selector.matchLabels, {
        'app.kubernetes.io/name': 'wroker',
      }),
    sentence: 'The PodDisruptionBudget worker selects no pods',
  },
  {
    what: 'an autoscaler of nothing',
    make: (all) => Object.assign(find(all, 'HorizontalPodAutoscaler', 'edge').spec.scaleTargetRef, { name: 'edges' }),
    sentence: 'The autoscaler edge has nothing to scale',
  },
  {
    what: 'an autoscaler that leaves one pod',
    make: (all) => Object.assign(find(all, 'HorizontalPodAutoscaler', 'idp').spec, { minReplicas: 1 }),
    sentence: 'The autoscaler idp leaves idp one pod, or none',
  },
  {
    what: 'a NetworkPolicy for nobody',
    make: (all) =>
      Object.assign(find(all, 'NetworkPolicy', 'idp').spec.podSelector.matchLabels, { 'app.kubernetes.io/name': 'id' }),
    sentence: 'The NetworkPolicy idp selects no pods',
  },
  {
    what: 'the internal port open to the way in',
    make: (all) => find(all, 'NetworkPolicy', 'edge').spec.ingress[0].ports.push({ port: 'internal' }),
    sentence: 'the way in reaches edge by TCP 4005',
  },
  {
    what: 'private addresses open',
    make: (all) =>
      find(all, 'NetworkPolicy', 'every-pod').spec.egress.push({ to: [{ ipBlock: { cidr: '10.0.0.0/8' } }] }),
    sentence: 'worker reaches 10.1.2.3 by TCP 443',
  },
  {
    what: 'the closing NetworkPolicy gone',
    make: (all) => all.splice(all.indexOf(find(all, 'NetworkPolicy', 'closed')), 1),
    sentence: 'a pod of nobody reaches another namespace by TCP 5432',
  },
  {
    what: 'a port of all pods open by its number',
    make: (all) =>
      find(all, 'NetworkPolicy', 'every-pod').spec.ingress.push({ ports: [{ port: 9000, endPort: 9500 }] }),
    sentence: 'another namespace reaches api by TCP 9400',
  },
  {
    what: 'the way to names gone',
    make: (all) => find(all, 'NetworkPolicy', 'every-pod').spec.egress.shift(),
    sentence: 'edge cannot reach names by UDP 53',
  },
  {
    what: 'the way of workers to edges gone',
    make: (all) => find(all, 'NetworkPolicy', 'edge-and-worker').spec.podSelector.matchExpressions[0].values.pop(),
    sentence: 'worker cannot reach edge by TCP 4005',
  },
  {
    what: 'an egress port by name',
    make: (all) => Object.assign(find(all, 'NetworkPolicy', 'api').spec.egress[0].ports[0], { port: 'http' }),
    sentence: 'The NetworkPolicy api leads to a port by name',
  },
  {
    what: 'HOST gone',
    make: (all) => delete variables(all, 'api')['HOST'],
    sentence: 'edge: HOST is not 0.0.0.0, so no other pod reaches it',
  },
  {
    what: 'POD_IP after its use',
    make: (all) => {
      const { env = [] } = container(all, 'edge')
      env.push(...env.splice(0, 1))
    },
    sentence: 'edge: EDGE_INTERNAL_URL holds a variable that has no value',
  },
  {
    what: 'a variable that is set twice',
    make: (all) => container(all, 'edge').env?.push({ name: 'FUNCTION_SANDBOX', value: 'required' }),
    sentence: 'edge: FUNCTION_SANDBOX is set twice',
  },
  {
    what: 'FUNCTION_SANDBOX=none',
    make: (all) => setVariable(all, 'edge', 'FUNCTION_SANDBOX', 'none'),
    sentence: 'edge would run Functions without walls',
  },
  {
    what: 'MACHINE_ADDRESSES gone',
    make: (all) => container(all, 'worker').env?.shift(),
    sentence: 'worker lets Functions reach its node: MACHINE_ADDRESSES are not those of the host',
  },
  {
    what: 'a volume for everybody as FUNCTIONS_FOLDER',
    make: (all) => setVariable(all, 'edge', 'FUNCTIONS_FOLDER', '/var/cache/fn'),
    sentence: 'edge keeps files of Functions on no volume: FUNCTIONS_FOLDER is below none',
  },
  {
    what: 'a database URL in a ConfigMap',
    make: (all) => Object.assign(variables(all, 'idp'), { DATABASE_URL: 'postgres://idp:secret@db/idp' }),
    sentence: 'idp: DATABASE_URL belongs into a Secret',
  },
  {
    what: 'an issuer that is not the identity provider',
    make: (all) => Object.assign(variables(all, 'idp'), { PUBLIC_URL: 'https://login.example.com' }),
    sentence: 'IDP_URL of api is not PUBLIC_URL of idp',
  },
  {
    what: 'invitations of an API that is not this one',
    make: (all) => Object.assign(variables(all, 'idp'), { INVITATION_ISSUERS: 'https://api.example.net' }),
    sentence: 'INVITATION_ISSUERS of idp lacks the API, so nobody can take an invitation',
  },
  {
    what: 'keys of the API asked for at its public host',
    make: (all) => Object.assign(variables(all, 'idp'), { INVITATION_ISSUERS: 'https://api.example.com' }),
    sentence: 'INVITATION_ISSUERS leads to no Service api',
  },
  {
    what: 'sign-up for everybody without mail',
    make: (all) => Object.assign(variables(all, 'idp'), { SIGN_UP: 'domains' }),
    sentence: 'idp: SIGN_UP=domains wants SIGN_UP_DOMAINS, such as example.com',
  },
  {
    what: 'the client of the console gone',
    make: (all) => delete variables(all, 'api')['CONSOLE_CLIENT_IDS'],
    sentence: 'There is no console: its URL or client is missing',
  },
  {
    what: 'a mistyped role',
    make: (all) => container(all, 'worker').args.splice(2, 1, 'wroker'),
    sentence: 'worker does not start services/api/src/main.ts worker',
  },
  {
    what: 'a privileged container',
    make: (all) => Object.assign(container(all, 'edge').securityContext ?? {}, { privileged: true }),
    sentence: 'edge is privileged',
  },
  {
    what: 'the network of the node',
    make: (all) => Object.assign(podOf(all, 'api'), { hostNetwork: true }),
    sentence: 'api shares a namespace with its node',
  },
  {
    what: 'a container that is root in a pod that is not',
    make: (all) => Object.assign(container(all, 'api').securityContext ?? {}, { runAsUser: 0 }),
    sentence: 'api may be root',
  },
  {
    what: '/tmp gone',
    make: (all) => container(all, 'api').volumeMounts?.shift(),
    sentence: 'api has no /tmp to write to',
  },
  {
    what: 'a folder of the node',
    make: (all) => podOf(all, 'worker').volumes?.splice(0, 1, { name: 'tmp', hostPath: { path: '/tmp' } } as never),
    sentence: 'worker: the volume tmp is neither of the pod alone nor a ConfigMap',
  },
  {
    what: 'the label of the namespace gone',
    make: (all) => delete find(all, 'Namespace', 'platform').metadata.labels,
    sentence: 'The Namespace platform admits no pods of edges and workers',
  },
  {
    what: 'a host that no variable sets',
    make: (all) => Object.assign(find(all, 'Gateway', 'platform').spec.listeners[5], { hostname: '*.unset' }),
    sentence: 'The Gateway platform has a host that no variable sets',
  },
  {
    what: 'a listener without a route',
    make: (all) => find(all, 'HTTPRoute', 's3').spec.parentRefs.pop(),
    sentence: 'No route belongs to platform buckets',
  },
  {
    what: 'a Secret among the manifests',
    make: (all) =>
      all.push({ apiVersion: 'v1', kind: 'Secret', metadata: { name: 'api' }, data: { MASTER_KEYS: 'azE6' } }),
    sentence: 'The Secret api is contained',
  },
]

describe('manifests for Kubernetes', unless(obstacle), () => {
  const rendered = new Map<string, Manifest[]>()
  let typeErrors: Record<string, string[]> = {}
  const mistaken: Manifest[][] = []

  beforeAll(async () => {
    for (const name of overlays)
      rendered.set(`overlay-${name}`, await render(join(import.meta.dirname, 'overlays', name)))
    for (const name of components) rendered.set(`component-${name}`, await renderExample(name))
    const example = rendered.get('overlay-example') ?? []
    for (const { make } of mistakes) {
      const manifests = structuredClone(example)
      make(manifests)
      mistaken.push(manifests)
    }
    // One run of the compiler for all.
    typeErrors = await checkTypes({
      ...Object.fromEntries(rendered),
      ...Object.fromEntries(mistaken.map((manifests, n) => [`mistake-${n}`, manifests])),
    })
  })

  test.each([
    ...overlays.map((name) => ({ what: `overlay-${name}` })),
    ...components.map((name) => ({ what: `component-${name}` })),
  ])('what $what renders has the types of Kubernetes’ API, and no mistake that the rules know', ({ what }) => {
    const manifests = rendered.get(what) ?? []
    expect(manifests.length).toBeGreaterThan(20)
    expect([...(typeErrors[what] ?? []), ...findMistakes(manifests, services)]).toEqual([])
  })

  test.each(mistakes.map((mistake, n) => ({ ...mistake, n })))(
    'the planted mistake “$what” is told in a sentence of its own',
    ({ n, sentence }) => {
      const told = [...(typeErrors[`mistake-${n}`] ?? []), ...findMistakes(mistaken[n] ?? [], services)]
      expect(told).toContainEqual(typeof sentence === 'string' ? sentence : expect.stringMatching(sentence))
    },
  )

  test('the hosts of the way in are those of the variables', () => {
    const gateway = find(rendered.get('component-gateway') ?? [], 'Gateway', 'platform')
    const hosts = gateway.spec.listeners.map(({ name, hostname }: Record<string, string>) => [name, hostname])
    const expected = {
      api: 'api.example.com',
      id: 'id.example.com',
      console: 'console.example.com',
      s3: 's3.example.net',
      buckets: '*.s3.example.net',
      apps: '*.apps.example.net',
      objects: '*.objects.example.net',
    }
    expect(Object.fromEntries(hosts)).toEqual(expected)
    const ingresses = (rendered.get('component-ingress-nginx') ?? []).filter(({ kind }) => kind === 'Ingress')
    const rules = ingresses.flatMap(({ spec }) => (spec as { rules: { host: string }[] }).rules.map(({ host }) => host))
    expect(rules.toSorted()).toEqual(Object.values(expected).toSorted())
  })
})
