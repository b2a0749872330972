import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, request, type IncomingMessage } from 'node:http'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  deploymentsOf,
  type Manifest,
  type PodFields,
  render,
  variablesOf,
  type Workload,
} from '@platform/testkit/kubernetes-manifests'
import { NAME_SERVER, openTestNetwork, OWN } from '@platform/sandbox/test-network'
import type { RelayRequest } from './namespace-relay.ts'
import { type Pod, startPod } from './pod.ts'
import { startRelay } from './relay.ts'

/** Addresses of Services: the node translates or serves them. */
const DNS = '10.96.0.10'
export const POSTGRES = '10.96.0.11'
export const API = '10.96.0.12'
export const HEALTH_PORT = 9400
/** How long a pod may take until it is ready, in milliseconds. */
const READY_MS_MAX = 120_000

const EXAMPLE = resolve(import.meta.dirname, '../../../infra/kubernetes/overlays/example')

const POD_NETWORK = '10.244'
/** The address of the nth pod that is started. */
export const podAddress = (n: number): string => `${POD_NETWORK}.${n}.2`

interface Got {
  status: number
  headers: IncomingMessage['headers']
  text: string
}

export interface RunningPod extends Pod {
  address: string
  /** Sends a request to a port of the pod, from its node. */
  ask: (port: number, path: string, options?: { host?: string }) => Promise<Got>
  /** Returns once /ready says so. Throws with what the pod said if it ends before, or does not get there. */
  untilReady: () => Promise<void>
}

export interface Cluster {
  /** The node's network namespace, as `ip netns` names it. */
  node: string
  /** A rendered Deployment, to start a pod of it or to change it before. */
  deployment: (name: string) => Workload
  /** The variables of a Deployment's container. */
  variablesOf: (deployment: Workload) => Record<string, string>
  /** Has connections to an address of the node go to one of this machine's own network. */
  serve: (address: { host: string; port: number }, to: { host: string; port: number }) => Promise<void>
  /** Connections that came to the node itself since the last call. */
  takeArrivals: () => number
  /** Starts a pod of a Deployment. Settles once its container runs. */
  start: (deployment: Workload) => Promise<RunningPod>
  close: () => Promise<void>
}

/** A copy of a Deployment. */
function getDeployment(manifests: readonly Manifest[], name: string): Workload {
  const found = deploymentsOf(manifests).find(({ metadata }) => metadata.name === name)
  if (!found) throw new Error(`No manifest makes the Deployment ${name}`)
  return structuredClone(found)
}

/** What the ConfigMaps hold, by name. */
const configMapsOf = (manifests: readonly Manifest[]): Record<string, Record<string, string>> =>
  Object.fromEntries(
    manifests.filter(({ kind }) => kind === 'ConfigMap').map(({ metadata, data = {} }) => [metadata.name, data]),
  )

/** Asks by a Unix socket. */
export async function askBySocket(
  socketPath: string,
  path: string,
  { host = 'localhost', method = 'GET' }: { host?: string; method?: string } = {},
): Promise<Got> {
  const sent = request({ socketPath, path, method, headers: { host }, agent: false }).end()
  const [answer] = (await once(sent, 'response')) as [IncomingMessage]
  const body = Buffer.concat((await answer.toArray()) as Buffer[])
  return { status: answer.statusCode ?? 0, headers: answer.headers, text: body.toString() }
}

/**
 * One node of a cluster, in network namespaces of its own: pods of the rendered manifests, a name server and other hosts, public and
 * private. Nothing of it reaches this machine's network, but what `serve` lets in.
 *
 * secrets: by name. volumes: folders of this machine in each pod, by path.
 */
export async function openCluster(
  secrets: Record<string, Record<string, string>>,
  volumes: Record<string, string>,
): Promise<Cluster> {
  const manifests = await render(EXAMPLE)
  await using opened = new AsyncDisposableStack()
  const folder = mkdtempSync(join(tmpdir(), 'node-'))
  opened.defer(() => rmSync(folder, { recursive: true, force: true }))
  const network = await openTestNetwork({ api: API })
  opened.defer(() => network.close())
  const node = network.machine
  const relay = await network.startProgram<RelayRequest>(join(import.meta.dirname, 'namespace-relay.ts'), [])
  const inNode = (...args: string[]): void => void execFileSync('ip', ['-n', node, ...args], { stdio: 'pipe' })
  for (const address of [POSTGRES, API]) inNode('address', 'add', `${address}/32`, 'dev', 'lo')
  const rules = `table ip cluster {
    chain services { type nat hook prerouting priority -100; ip daddr ${DNS} meta l4proto { tcp, udp } th dport 53 dnat to ${NAME_SERVER}; }
    chain leave { type nat hook postrouting priority 100; ip saddr ${POD_NETWORK}.0.0/16 oifname uplink masquerade; }
  }`
  execFileSync('ip', ['netns', 'exec', node, 'sh', '-ec', 'echo 1 > /proc/sys/net/ipv4/ip_forward; nft -f -'], {
    input: rules,
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  let sockets = 0
  const newSocket = (): string => join(folder, `${(sockets += 1)}.sock`)
  let arrivals = 0
  const own = createServer((_, response) => response.setHeader('connection', 'close').end('I am the node'))
  own.on('connection', () => (arrivals += 1))
  const ownSocket = newSocket()
  await once(own.listen(ownSocket), 'listening')
  opened.defer(() => void own.close())
  await relay.ask({ listen: { host: OWN, port: 80 }, to: ownSocket })

  const pods: Pod[] = []
  opened.defer(async () => void (await Promise.all(pods.map((pod) => pod.kill()))))
  let started = 0
  const fieldsOf = (n: number): PodFields => ({
    'metadata.name': `pod-${n}`,
    'status.podIP': podAddress(n),
    'status.podIPs': podAddress(n),
    'status.hostIP': OWN,
    'status.hostIPs': OWN,
  })
  const closing = opened.move()
  return {
    node,
    deployment: (name) => getDeployment(manifests, name),
    variablesOf: (deployment) => variablesOf(deployment, manifests, secrets, fieldsOf(0)),
    async serve(address, to) {
      const path = newSocket()
      const server = await startRelay(path, to)
      closing.defer(() => void server.close())
      await relay.ask({ listen: address, to: path })
    },
    takeArrivals: () => {
      const before = arrivals
      arrivals = 0
      return before
    },
    async start(deployment) {
      const n = (started += 1)
      const address = podAddress(n)
      const pod = await startPod({
        deployment,
        name: `pod-${n}`,
        env: variablesOf(deployment, manifests, secrets, fieldsOf(n)),
        resolver: `nameserver ${DNS}\n`,
        volumes,
        configMaps: configMapsOf(manifests),
        attach(pid) {
          const gateway = `${POD_NETWORK}.${n}.1`
          inNode('link', 'add', `pod-${n}`, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', String(pid))
          inNode('address', 'add', `${gateway}/30`, 'dev', `pod-${n}`)
          inNode('link', 'set', `pod-${n}`, 'up')
          const script = `ip address add ${address}/30 dev eth0; ip link set eth0 mtu 1400 up; ip route add default via ${gateway}`
          execFileSync('nsenter', [`--net=/proc/${pid}/ns/net`, 'sh', '-ec', script], { stdio: 'pipe' })
        },
      })
      pods.push(pod)
      const ways = new Map<number, Promise<string>>()
      const wayTo = (port: number): Promise<string> => {
        const known = ways.get(port)
        if (known) return known
        const path = newSocket()
        const made = relay.ask({ listen: path, to: { host: address, port } }).then(() => path)
        ways.set(port, made)
        return made
      }
      const ask: RunningPod['ask'] = async (port, path, options) => askBySocket(await wayTo(port), path, options)
      return {
        ...pod,
        address,
        ask,
        async untilReady() {
          const isReady = async () => (await ask(HEALTH_PORT, '/ready').catch(() => undefined))?.status === 200
          let isOver = false
          void pod.ended.then(() => (isOver = true))
          for (const deadline = performance.now() + READY_MS_MAX; !(await isReady()); await sleep(100))
            if (isOver || performance.now() > deadline) throw new Error(`A pod is not ready: ${pod.log()}`)
        },
      }
    },
    close: () => closing.disposeAsync(),
  }
}
