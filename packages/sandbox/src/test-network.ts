import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, rmdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** Address of the machine; `PUBLIC` is a host that every command may reach. */
export const OWN = '203.0.113.200'
const GATEWAY = '203.0.113.193'
export const NAME_SERVER = '203.0.113.53'
export const PUBLIC = '203.0.113.9'
/** A public host that the machine is told is itself, as a pod is told of its node. */
export const NODE = '203.0.113.10'
/** The MTU of the machine's uplink, smaller than usual, as in networks that wrap packets. */
export const UPLINK_MTU = 1_400
const HOSTS = [
  { name: 'public', address: PUBLIC, port: 80 },
  { name: 'private', address: '10.0.0.1', port: 80 },
  { name: 'metadata', address: '169.254.169.254', port: 80 },
  { name: 'mapped', address: '::ffff:10.0.0.1', port: 81 },
  { name: 'neighbour', address: '10.0.0.2', port: 80 },
  { name: 'gateway', address: GATEWAY, port: 80 },
  { name: 'node', address: NODE, port: 80 },
]
const NAMES = { 'public.example': PUBLIC, 'private.example': '10.0.0.1', 'metadata.example': '169.254.169.254' }

/** Of nobody: the Internet sends what is for it to the machine. */
const NOWHERE = '192.0.2.1'

const ip = (...args: string[]): void => void execFileSync('ip', args, { stdio: 'pipe' })

export interface Dial {
  /** A URL to fetch, or the host and port of a connection or datagram. */
  url?: string
  tcp?: [host: string, port: number]
  udp?: [host: string, port: number]
}

/** Every way to reach 10.0.0.1, 169.254.169.254, or the machine itself with what it is told of. */
export const CLOSED: Dial[] = [
  ...[
    '10.0.0.1',
    '167772161',
    '0x0a000001',
    '0xa.0.0.1',
    '012.0.0.1',
    '10.1',
    '[::ffff:10.0.0.1]',
    '[::ffff:a00:1]',
    '[64:ff9b::a00:1]',
    '[2002:a00:1::]',
    '[::10.0.0.1]',
    'private.example',
    '169.254.169.254',
    '2852039166',
    '0xa9fea9fe',
    '0251.0376.0251.0376',
    '169.254.43518',
    '[::ffff:169.254.169.254]',
    '[::ffff:a9fe:a9fe]',
    '[64:ff9b::a9fe:a9fe]',
    'metadata.example',
    '[::ffff:10.0.0.1]:81',
    '10.0.0.1:81',
    OWN,
    NODE,
    '127.0.0.1',
    'localhost',
    '0.0.0.0',
    '[::1]',
    '[::]',
    '[fe80::1]',
    '198.18.0.5',
    '198.19.255.1',
    '198.19.255.2',
    '100.64.0.1',
    '172.16.0.1',
    '192.168.0.1',
    '224.0.0.1',
  ].map((host) => ({ url: `http://${host}/` })),
  { url: `http://public.example/?to=${encodeURIComponent('http://10.0.0.1/')}` },
  { url: `http://public.example/?to=${encodeURIComponent('http://metadata.example/')}` },
  { tcp: ['10.0.0.1', 80] },
  { tcp: ['169.254.169.254', 80] },
  { tcp: ['::ffff:10.0.0.1', 81] },
  { udp: ['10.0.0.1', 80] },
  { udp: ['10.0.0.1', 53] },
  { udp: ['169.254.169.254', 80] },
  { udp: ['::ffff:10.0.0.1', 81] },
]

/** Those of CLOSED behind which a host listens. */
export const ARRIVING: Dial[] = [
  ...['10.0.0.1', '[::ffff:10.0.0.1]', '169.254.169.254', 'private.example', OWN, NODE].map((host) => ({
    url: `http://${host}/`,
  })),
  { tcp: ['::ffff:10.0.0.1', 81] },
  { udp: ['10.0.0.1', 80] },
  { udp: ['169.254.169.254', 80] },
]

/**
 * A script that tries the dials in turn and reports each result; it ends with a datagram to the public host, which arrives
 * after all others.
 */
export const dialAll = (dials: Dial[]): string => `
  const net = require('node:net'), dgram = require('node:dgram')
  const dial = async ({ url, tcp, udp }) => {
    if (url) return fetch(url, { signal: AbortSignal.timeout(3000) }).then((answer) => answer.text(), (error) => 'failed ' + (error.cause?.code ?? error.name))
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, tcp ? 3000 : 300, 'failed by time')
      const settle = (text) => { clearTimeout(timer); resolve(text) }
      if (tcp) { const socket = net.connect(tcp[1], tcp[0], () => { settle('connected'); socket.destroy() }); socket.on('error', (error) => settle('failed ' + error.code)) }
      else { const socket = dgram.createSocket(udp[0].includes(':') ? 'udp6' : 'udp4'); socket.on('error', (error) => settle('failed ' + error.code)); socket.on('message', (text) => settle(String(text))); socket.send('hello', udp[1], udp[0], (error) => error && settle('failed ' + error.code)) }
    })
  }
  (async () => {
    const answers = []
    for (const each of ${JSON.stringify(dials)}) answers.push(await dial(each))
    console.log(JSON.stringify(answers)); process.exit()
  })()`

/** The next message of a program. Throws if it ends instead. */
const hear = (program: ChildProcess): Promise<unknown> =>
  new Promise((resolve, reject) => {
    const ended = (): void => reject(new Error('The program of the test has ended'))
    program.once('exit', ended)
    program.once('message', (message) => {
      program.off('exit', ended)
      resolve(message)
    })
  })

function tell(program: ChildProcess, message: object | string): Promise<unknown> {
  const answer = hear(program)
  program.send(message)
  return answer
}

async function end(program: ChildProcess): Promise<void> {
  if (program.exitCode !== null || program.signalCode !== null) return
  const ended = once(program, 'exit')
  program.kill('SIGKILL')
  await ended
}

const start = (namespace: string, script: string, args: string[]): ChildProcess =>
  spawn('ip', ['netns', 'exec', namespace, process.execPath, script, ...args], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })

/** A program of the machine that answers each message with `{ value }` or `{ error }`. */
export interface MachineProgram<Request extends object> {
  /** Throws the error if that is the answer. Of several messages each is sent once the one before it is answered. */
  ask(request: Request): Promise<unknown>
  /** Ends the program at once. */
  end(): Promise<void>
}

export interface TestNetwork {
  /** The machine's network namespace, as `ip netns` names it. */
  machine: string
  /** Starts a program on the machine. script: absolute; it sends a message once it is ready. */
  startProgram<Request extends object>(script: string, args: string[]): Promise<MachineProgram<Request>>
  /** Ends all started programs. */
  endPrograms(): Promise<void>
  /**
   * Sends a datagram for somebody else from the Internet to the machine, which has to listen at its own address. Returns whether it
   * was passed on. source: the address that it names as its sender.
   */
  passesOn(source: string): boolean
  /** Arrivals at each host since the last report. */
  report(): Promise<unknown>
  close(): Promise<void>
}

/**
 * Creates two namespaces, connected to each other and not to this machine: a machine, whose uplink the sandbox finds, and an
 * Internet, which holds every other host, including private ones. At most one is open per process.
 *
 * names: addresses by host. The name server tells them besides NAMES.
 */
export async function openTestNetwork(names: Record<string, string> = {}): Promise<TestNetwork> {
  const machine = `sandbox-test-machine-${process.pid}`
  const internet = `sandbox-test-internet-${process.pid}`
  const settings = join('/etc/netns', machine)
  const programs: ChildProcess[] = []
  for (const name of [machine, internet]) {
    ip('netns', 'add', name)
    ip('-n', name, 'link', 'set', 'lo', 'up')
  }
  ip('link', 'add', 'name', 'uplink', 'netns', machine, 'type', 'veth', 'peer', 'name', 'downlink', 'netns', internet)
  ip('-n', machine, 'link', 'set', 'uplink', 'mtu', String(UPLINK_MTU))
  ip('-n', machine, 'address', 'add', `${OWN}/28`, 'dev', 'uplink')
  ip('-n', internet, 'address', 'add', `${GATEWAY}/28`, 'dev', 'downlink')
  ip('-n', machine, 'link', 'set', 'uplink', 'up')
  ip('-n', internet, 'link', 'set', 'downlink', 'up')
  ip('-n', machine, 'route', 'add', 'default', 'via', GATEWAY)
  for (const address of [PUBLIC, NODE, NAME_SERVER, '10.0.0.1', '10.0.0.2', '169.254.169.254'])
    ip('-n', internet, 'address', 'add', `${address}/32`, 'dev', 'lo')
  ip('-n', internet, 'route', 'add', NOWHERE, 'via', OWN)
  const inInternet = (...args: string[]): string =>
    execFileSync('ip', ['netns', 'exec', internet, ...args], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] })
  inInternet('nft', 'add', 'table', 'ip', 'returned')
  inInternet('nft', `add chain ip returned arriving { type filter hook prerouting priority 0; }`)
  inInternet('nft', `add rule ip returned arriving iifname downlink ip daddr ${NOWHERE} counter`)
  mkdirSync(settings, { recursive: true })
  writeFileSync(join(settings, 'resolv.conf'), `nameserver ${NAME_SERVER}\n`)
  const script = join(import.meta.dirname, 'namespace-hosts.ts')
  const hosts = start(internet, script, [JSON.stringify(HOSTS), NAME_SERVER, JSON.stringify({ ...NAMES, ...names })])
  await hear(hosts)

  const endPrograms = async (): Promise<void> => {
    for (const program of programs.splice(0)) await end(program)
  }
  return {
    machine,
    async startProgram(path, args) {
      const program = start(machine, path, args)
      programs.push(program)
      await hear(program)
      let last: Promise<unknown> = Promise.resolve()
      return {
        end: () => end(program),
        ask: async (request) => {
          // An answer does not say which message it is for.
          const told = last.then(() => tell(program, request))
          last = told.catch(() => undefined)
          const answer = (await told) as { value: unknown } | { error: string }
          if ('error' in answer) throw new Error(answer.error)
          return answer.value
        },
      }
    },
    endPrograms,
    passesOn(source) {
      ip('-n', internet, 'address', 'replace', `${source}/32`, 'dev', 'lo')
      // The machine answers the second only when it is done with the first.
      const code = `const socket = require('node:dgram').createSocket('udp4').bind(0, '${source}', () => socket.send('hello', 9, '${NOWHERE}', () =>
        fetch('http://${OWN}/').then((answer) => answer.text()).then(() => process.exit())))`
      const count = (): string | undefined =>
        /packets (\d+)/.exec(inInternet('nft', 'list', 'chain', 'ip', 'returned', 'arriving'))?.[1]
      const before = count()
      inInternet(process.execPath, '-e', code)
      return count() !== before
    },
    report: () => tell(hosts, 'report'),
    async close() {
      await endPrograms()
      await end(hosts)
      for (const name of [machine, internet]) ip('netns', 'delete', name)
      rmSync(settings, { recursive: true, force: true })
      try {
        rmdirSync('/etc/netns')
      } catch {
        // Another's settings are there.
      }
    },
  }
}
