import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import type { Request } from './namespace-sandbox.ts'
import type { SandboxOptions } from './open-sandbox.ts'
import { findTestObstacle } from './test-obstacle.ts'

const obstacle = findTestObstacle(['bwrap', 'pasta', 'nft', 'ip', 'nsenter', 'setpriv', 'prlimit'])

/**
 * Two namespaces, joined by a cable and by nothing with the machine: `machine`, whose uplink the sandbox finds, and `internet`, which
 * holds every host that is not the machine's, private ones included.
 */
const machine = `sandbox-test-machine-${process.pid}`
const internet = `sandbox-test-internet-${process.pid}`
const settings = join('/etc/netns', machine)
const OWN = '203.0.113.200'
const GATEWAY = '203.0.113.193'
const NAME_SERVER = '203.0.113.53'
const PUBLIC = '203.0.113.9'
const HOSTS = [
  { name: 'public', address: PUBLIC, port: 80 },
  { name: 'private', address: '10.0.0.1', port: 80 },
  { name: 'metadata', address: '169.254.169.254', port: 80 },
  { name: 'mapped', address: '::ffff:10.0.0.1', port: 81 },
  { name: 'neighbour', address: '10.0.0.2', port: 80 },
  { name: 'gateway', address: GATEWAY, port: 80 },
]
const NAMES = { 'public.example': PUBLIC, 'private.example': '10.0.0.1', 'metadata.example': '169.254.169.254' }

const ip = (...args: string[]): void => void execFileSync('ip', args, { stdio: 'pipe' })

interface Dial {
  /** A URL that is fetched, or host and port that a connection or datagram goes to. */
  url?: string
  tcp?: [host: string, port: number]
  udp?: [host: string, port: number]
}

/** Whatever stands for 10.0.0.1, for 169.254.169.254 or for the machine itself. */
const CLOSED: Dial[] = [
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

/** Those of them behind which a host listens. */
const ARRIVING: Dial[] = [
  ...['10.0.0.1', '[::ffff:10.0.0.1]', '169.254.169.254', 'private.example', OWN].map((host) => ({
    url: `http://${host}/`,
  })),
  { tcp: ['::ffff:10.0.0.1', 81] },
  { udp: ['10.0.0.1', 80] },
  { udp: ['169.254.169.254', 80] },
]

/** Tries them in turn and answers with what each said; ends with a datagram to the public host, which arrives after all before it. */
const dialAll = (dials: Dial[]): string => `
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

describe.skipIf(obstacle !== undefined)('the network of deployments', { timeout: 120_000 }, () => {
  const folder = mkdtempSync(join(tmpdir(), 'network-walls-'))
  let hosts: ChildProcess
  const machines: ChildProcess[] = []
  let made = 0

  /** What a program says next. Throws if it ends instead. */
  const hear = (program: ChildProcess): Promise<unknown> =>
    new Promise((resolve, reject) => {
      const ended = (): void => reject(new Error('The program of the test has ended'))
      program.once('exit', ended)
      program.once('message', (message) => {
        program.off('exit', ended)
        resolve(message)
      })
    })
  const tell = (program: ChildProcess, message: object | string): Promise<unknown> => {
    const answer = hear(program)
    program.send(message)
    return answer
  }
  const end = async (program: ChildProcess): Promise<void> => {
    if (program.exitCode !== null || program.signalCode !== null) return
    const ended = once(program, 'exit')
    program.kill('SIGKILL')
    await ended
  }
  const report = async (): Promise<unknown> => tell(hosts, 'report')

  interface Machine {
    program: ChildProcess
    ask(request: Request): Promise<unknown>
    dial(name: string, dials: Dial[]): Promise<string[]>
  }
  const startMachine = async (options: Partial<SandboxOptions> = {}): Promise<Machine> => {
    made += 1
    const program = spawn(
      'ip',
      [
        'netns',
        'exec',
        machine,
        process.execPath,
        join(import.meta.dirname, 'namespace-sandbox.ts'),
        JSON.stringify({ folder: join(folder, `sandbox-${made}`), mode: 'required', ...options }),
        OWN,
      ],
      { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] },
    )
    machines.push(program)
    await hear(program)
    const ask = async (request: Request): Promise<unknown> => {
      const answer = (await tell(program, request)) as { value: unknown } | { error: string }
      if ('error' in answer) throw new Error(answer.error)
      return answer.value
    }
    return {
      program,
      ask,
      dial: async (name, dials) =>
        JSON.parse((await ask({ kind: 'run', name, networkId: name, code: dialAll(dials) })) as string) as string[],
    }
  }

  beforeAll(async () => {
    for (const name of [machine, internet]) {
      ip('netns', 'add', name)
      ip('-n', name, 'link', 'set', 'lo', 'up')
    }
    ip('link', 'add', 'name', 'uplink', 'netns', machine, 'type', 'veth', 'peer', 'name', 'downlink', 'netns', internet)
    ip('-n', machine, 'address', 'add', `${OWN}/28`, 'dev', 'uplink')
    ip('-n', internet, 'address', 'add', `${GATEWAY}/28`, 'dev', 'downlink')
    ip('-n', machine, 'link', 'set', 'uplink', 'up')
    ip('-n', internet, 'link', 'set', 'downlink', 'up')
    ip('-n', machine, 'route', 'add', 'default', 'via', GATEWAY)
    for (const address of [PUBLIC, NAME_SERVER, '10.0.0.1', '10.0.0.2', '169.254.169.254'])
      ip('-n', internet, 'address', 'add', `${address}/32`, 'dev', 'lo')
    mkdirSync(settings, { recursive: true })
    writeFileSync(join(settings, 'resolv.conf'), `nameserver ${NAME_SERVER}\n`)
    const script = join(import.meta.dirname, 'namespace-hosts.ts')
    const args = ['netns', 'exec', internet, process.execPath, script, JSON.stringify(HOSTS), NAME_SERVER]
    hosts = spawn('ip', [...args, JSON.stringify(NAMES)], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
    await hear(hosts)
  }, 60_000)

  afterEach(async () => {
    for (const program of machines.splice(0)) await end(program)
  }, 60_000)
  afterAll(async () => {
    if (hosts !== undefined) await end(hosts)
    for (const name of [machine, internet]) ip('netns', 'delete', name)
    rmSync(settings, { recursive: true, force: true })
    rmSync(folder, { recursive: true, force: true })
    try {
      rmdirSync('/etc/netns')
    } catch {
      // Another's settings are there.
    }
  }, 60_000)

  test('public hosts are reached, by address and by name, and no other host in any spelling', async () => {
    const { ask, dial } = await startMachine()
    await report()
    const open: Dial[] = [
      { url: `http://${PUBLIC}/` },
      { url: 'http://public.example/' },
      { url: `http://public.example/?to=${encodeURIComponent('http://public.example/')}` },
      { tcp: [PUBLIC, 80] },
      { udp: [PUBLIC, 80] },
    ]
    expect(await dial('open', open)).toEqual(['I am public', 'I am public', 'I am public', 'connected', 'I am here'])
    expect(await report()).toEqual({ public: 6 })

    // The last datagram follows all the others on their way.
    const answers = await dial('closed', [...CLOSED, { udp: [PUBLIC, 80] }])
    expect(answers.slice(0, -1).filter((each) => !each.startsWith('failed'))).toEqual([])
    expect(answers.at(-1)).toBe('I am here')
    // The two redirects, and the last datagram.
    expect(await report()).toEqual({ public: 3 })
    expect(await ask({ kind: 'arrivals' })).toBe(0)

    // The counters count: without the rules everything arrives.
    await ask({ kind: 'removeRules' })
    await dial('open-again', ARRIVING)
    expect(await report()).toMatchObject({
      private: expect.any(Number),
      metadata: expect.any(Number),
      mapped: expect.any(Number),
    })
    expect(await ask({ kind: 'arrivals' })).toBeGreaterThan(0)
    await ask({ kind: 'close' })
  })

  test('an allowed host is reached at the port that is allowed, and its neighbours are not', async () => {
    const { ask, dial } = await startMachine({ egressAllow: ['10.0.0.1:80'] })
    await report()
    const dials: Dial[] = [
      { url: 'http://10.0.0.1/' },
      { url: 'http://private.example/' },
      { url: 'http://10.0.0.1:81/' },
      { url: 'http://10.0.0.2/' },
      { udp: ['10.0.0.2', 80] },
      { udp: ['10.0.0.1', 80] },
    ]
    const answers = await dial('allowed', dials)
    expect(answers.map((each) => (each.startsWith('failed') ? 'failed' : each))).toEqual([
      'I am private',
      'I am private',
      'failed',
      'failed',
      'failed',
      'I am here',
    ])
    expect(await report()).toEqual({ private: 3 })
    await ask({ kind: 'close' })
  })

  test('a deployment that opens connections without end is refused more, and others are not', async () => {
    const { ask, dial } = await startMachine()
    const code = `const dgram = require('node:dgram'), net = require('node:net')
      const socket = dgram.createSocket('udp4').on('error', () => {})
      const send = (port) => port > 11000 ? knock() : socket.send('hello', port, '${PUBLIC}', () => setImmediate(send, port + 1))
      const knock = () => net.connect(80, '${PUBLIC}', () => console.log('connected')).on('error', (error) => console.log(error.code))
      send(5000)`
    const greedy = await ask({ kind: 'run', name: 'greedy', networkId: 'greedy', code, waitsForOutput: true })
    expect(greedy).toBe('ECONNREFUSED\n')
    expect(await dial('modest', [{ tcp: [PUBLIC, 80] }])).toEqual(['connected'])
    await ask({ kind: 'stop', name: 'greedy' })
    await ask({ kind: 'close' })
  })

  const LISTENER = `const net = require('node:net'); const answer = (socket) => socket.end('I am the neighbour')
    net.createServer(answer).listen(8080, '0.0.0.0', () => net.createServer(answer).listen('\\0neighbour', () =>
      console.log(Object.values(require('node:os').networkInterfaces()).flat().find(({ family, internal }) => family === 'IPv4' && !internal).address)))`
  const visit = (
    address: string,
  ): string => `const net = require('node:net'); const visit = (options) => new Promise((resolve) =>
      net.connect(options).on('data', (text) => resolve(String(text))).on('error', (error) => resolve('failed ' + error.code)).setTimeout(2000, () => resolve('failed by time')))
    Promise.all([visit({ host: '${address}', port: 8080 }), visit('\\0neighbour')]).then((answers) => { console.log(JSON.stringify(answers)); process.exit() })`

  test('two deployments do not reach each other, and commands of one do', async () => {
    const { ask } = await startMachine()
    const listening = await ask({ kind: 'run', name: 'first', networkId: 'one', code: LISTENER, waitsForOutput: true })
    const address = (listening as string).trim()
    const code = visit(address)
    const other = JSON.parse((await ask({ kind: 'run', name: 'other', networkId: 'two', code })) as string) as string[]
    expect(other.filter((each) => !each.startsWith('failed'))).toEqual([])
    const same = await ask({ kind: 'run', name: 'same', networkId: 'one', code })
    expect(JSON.parse(same as string)).toEqual(['I am the neighbour', 'I am the neighbour'])
    await ask({ kind: 'close' })
  })

  test('a network goes some time after its last command, and the hub with the last network', async () => {
    const { ask, dial } = await startMachine({ networkIdleMs: 200 })
    const namespaces = async (): Promise<string[]> =>
      ((await ask({ kind: 'networks' })) as { namespaces: string[] }).namespaces.filter(
        (name) => !name.includes('test'),
      )
    expect(await namespaces()).toEqual([])
    await dial('one', [{ url: `http://${PUBLIC}/` }])
    expect(await namespaces()).toHaveLength(2)
    await expect.poll(namespaces, { timeout: 20_000 }).toEqual([])
    expect(await dial('two', [{ url: `http://${PUBLIC}/` }])).toEqual(['I am public'])
    await ask({ kind: 'close' })
    expect(await namespaces()).toEqual([])
  })

  test('a hub whose program ends is started anew, and what runs is joined with it again', async () => {
    const { ask, dial } = await startMachine()
    const code = `console.log('up'); setInterval(() => fetch('http://${PUBLIC}/').then(() => {}, () => {}), 50)`
    await ask({ kind: 'run', name: 'steady', networkId: 'steady', code, waitsForOutput: true })
    await expect.poll(report, { timeout: 20_000 }).toHaveProperty('public')
    await ask({ kind: 'endHub' })
    await expect.poll(() => ask({ kind: 'networks' }), { timeout: 20_000 }).toHaveProperty('warnings.length', 1)
    expect(await dial('next', [{ url: `http://${PUBLIC}/` }, { url: 'http://10.0.0.1/' }])).toEqual([
      'I am public',
      expect.stringMatching(/^failed/),
    ])
    await report()
    await expect.poll(report, { timeout: 20_000 }).toHaveProperty('public')
    await ask({ kind: 'stop', name: 'steady' })
    await ask({ kind: 'close' })
  })

  test('a killed machine leaves no network to the next', async () => {
    const own = join(folder, 'killed')
    const first = await startMachine({ folder: own })
    const code = `console.log('up'); setInterval(() => {}, 1000)`
    await first.ask({ kind: 'run', name: 'steady', networkId: 'steady', code, waitsForOutput: true })
    await end(first.program)
    const next = await startMachine({ folder: own })
    const { namespaces } = (await next.ask({ kind: 'networks' })) as { namespaces: string[] }
    expect(namespaces).toEqual([])
    expect(await next.dial('again', [{ url: `http://${PUBLIC}/` }])).toEqual(['I am public'])
    await next.ask({ kind: 'close' })
  })
})
