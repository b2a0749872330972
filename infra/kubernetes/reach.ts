import { BlockList } from 'node:net'
import {
  containerOf,
  doesSelect,
  type Manifest,
  type Selector,
  workloadsOf,
} from '@platform/testkit/kubernetes-manifests'

interface Peer {
  podSelector?: Selector
  namespaceSelector?: Selector
  ipBlock?: { cidr: string; except?: string[] }
}
interface PolicyRule {
  from?: Peer[]
  to?: Peer[]
  ports?: { port?: string | number; endPort?: number; protocol?: string }[]
}
interface Policy {
  podSelector: Selector
  policyTypes: string[]
  ingress?: PolicyRule[]
  egress?: PolicyRule[]
}

type Labels = Readonly<Record<string, string>>
/** Somebody who may begin a connection, or whom one may lead to. */
interface End {
  name: string
  /** Of a pod of the platform, or of another namespace. */
  pod?: Labels
  /** Of its namespace; undefined where it is the platform's own. */
  namespace?: Labels
  ports: readonly { name?: string; containerPort: number }[]
  /** Of somebody outside of the cluster. */
  address?: string
}

const outside = (name: string, namespace: Labels, ports: readonly number[], pod: Labels = {}): End => ({
  name,
  pod,
  namespace,
  ports: ports.map((containerPort) => ({ containerPort })),
})
const at = (address: string): End => ({ name: address, address, ports: [{ containerPort: 443 }] })

const entrance = outside('the way in', { 'platform/role': 'entrance' }, [443, 8443])
const monitoring = outside('monitoring', { 'platform/role': 'monitoring' }, [9090])
const engines = outside('the engines', { 'platform/role': 'engines' }, [5432, 6379, 8333])
const stranger = outside('another namespace', { 'kubernetes.io/metadata.name': 'shop' }, [80, 5432])
const names = outside('names', { 'kubernetes.io/metadata.name': 'kube-system' }, [53], { 'k8s-app': 'kube-dns' })
const system = outside('another pod of kube-system', { 'kubernetes.io/metadata.name': 'kube-system' }, [443])
const publicAddresses = ['1.1.1.1', '203.0.113.7', '2606:4700::1111'].map(at)
const privateAddresses = [
  '0.0.0.1',
  '10.1.2.3',
  '100.64.0.1',
  '127.0.0.1',
  '169.254.169.254',
  '172.16.0.9',
  '192.168.1.1',
  '198.18.0.1',
  '224.0.0.1',
  'fd00::1',
  'fe80::1',
  '64:ff9b::a01:203',
  '2002:a01:203::1',
].map(at)

/** The ways between pods that there have to be, and no others, as `from to port`. */
const WAYS = new Set([
  ...['api 4000', 'api 4003', 'api 4004', 'idp 4001', 'edge 4002'].map((to) => `the way in ${to}`),
  ...['api', 'idp', 'edge', 'worker'].map((to) => `monitoring ${to} 9400`),
  'api idp 4001',
  'idp api 4000',
  'edge api 4000',
  'worker api 4000',
  ...['api', 'edge', 'worker'].map((from) => `${from} edge 4005`),
])

function isInBlock(address: string, { cidr, except = [] }: { cidr: string; except?: string[] }): boolean {
  const family = address.includes(':') ? 'ipv6' : 'ipv4'
  const isIn = (range: string): boolean => {
    if (range.includes(':') !== address.includes(':')) return false
    const [network = '', prefix] = range.split('/')
    const list = new BlockList()
    list.addSubnet(network, Number(prefix), family)
    return list.check(address, family)
  }
  return isIn(cidr) && !except.some(isIn)
}

function isMeant({ podSelector, namespaceSelector, ipBlock }: Peer, end: End): boolean {
  if (ipBlock) return end.address !== undefined && isInBlock(end.address, ipBlock)
  if (end.address !== undefined) return false
  const isItsNamespace = namespaceSelector
    ? doesSelect(namespaceSelector, end.namespace ?? {})
    : end.namespace === undefined
  return isItsNamespace && (podSelector === undefined || doesSelect(podSelector, end.pod ?? {}))
}

/** Whether rules of policies let a connection to a port of `to` pass. `peer` is the end that the rules' peers are about. */
const doesPass = (rules: readonly PolicyRule[], peer: End, to: End, port: number, protocol: string): boolean =>
  rules.some(({ from, to: towards, ports = [] }) => {
    const peers = from ?? towards ?? []
    const isOpenPort = ports.some((each) => {
      const number = typeof each.port === 'string' ? numberOf(to, each.port) : each.port
      const isIt = number === undefined ? each.port === undefined : port >= number && port <= (each.endPort ?? number)
      return isIt && (each.protocol ?? 'TCP') === protocol
    })
    return (peers.length === 0 || peers.some((each) => isMeant(each, peer))) && (ports.length === 0 || isOpenPort)
  })
const numberOf = ({ ports }: End, name: string): number | undefined =>
  ports.find((port) => port.name === name)?.containerPort

/**
 * Sentences about ways between pods, other namespaces and addresses that NetworkPolicies leave open or close against WAYS. All that
 * somebody could reach is tried: every port of every pod, and one that none has.
 */
export function findWrongWays(manifests: readonly Manifest[]): string[] {
  const policies = manifests.filter(({ kind }) => kind === 'NetworkPolicy').map(({ spec }) => spec as Policy)
  const pods: End[] = workloadsOf(manifests).map((workload) => ({
    name: workload.metadata.name,
    pod: workload.spec.template.metadata.labels,
    ports: [...(containerOf(workload).ports ?? []), { containerPort: 22 }],
  }))
  // Such as one that somebody starts by hand.
  const bare: End = { name: 'a pod of nobody', pod: {}, ports: [{ containerPort: 80 }] }
  const rulesOf = (end: End, type: 'Ingress' | 'Egress'): PolicyRule[] | undefined => {
    if (end.namespace ?? end.address) return undefined
    const own = policies.filter(
      (each) => each.policyTypes.includes(type) && doesSelect(each.podSelector, end.pod ?? {}),
    )
    // Nobody's policy: everything is open.
    return own.length === 0
      ? undefined
      : own.flatMap(({ ingress, egress }) => (type === 'Ingress' ? ingress : egress) ?? [])
  }
  const mayReach = (from: End, to: End, port: number, protocol: string): boolean => {
    const [leaves, enters] = [rulesOf(from, 'Egress'), rulesOf(to, 'Ingress')]
    return (
      (leaves === undefined || doesPass(leaves, to, to, port, protocol)) &&
      (enters === undefined || doesPass(enters, from, to, port, protocol))
    )
  }
  const isRight = (from: End, to: End, port: number): boolean =>
    (from !== bare && [entrance, engines, names, ...publicAddresses].includes(to)) ||
    WAYS.has(`${from.name} ${to.name} ${port}`)

  const wrong: string[] = []
  const expectWay = (from: End, to: End, port: number, protocol: string, isOpen: boolean): void => {
    if (mayReach(from, to, port, protocol) === isOpen) return
    wrong.push(`${from.name} ${isOpen ? 'cannot reach' : 'reaches'} ${to.name} by ${protocol} ${port}`)
  }
  const others = [entrance, monitoring, engines, stranger, names, system, ...publicAddresses, ...privateAddresses]
  for (const pod of [...pods, bare]) {
    for (const from of [...pods, bare, ...others])
      for (const { containerPort } of pod.ports)
        expectWay(from, pod, containerPort, 'TCP', isRight(from, pod, containerPort))
    for (const to of others)
      for (const { containerPort } of to.ports)
        expectWay(pod, to, containerPort, 'TCP', isRight(pod, to, containerPort))
    expectWay(pod, names, 53, 'UDP', pod !== bare)
    expectWay(pod, names, 9153, 'TCP', false)
  }
  return wrong
}
