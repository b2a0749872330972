import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { unless } from '@platform/test-runner/task-meta'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import type { Request } from './namespace-sandbox.ts'
import { idOf, type SandboxOptions } from './open-sandbox.ts'
import {
  ARRIVING,
  CLOSED,
  type Dial,
  dialAll,
  type MachineProgram,
  NODE,
  openTestNetwork,
  OWN,
  PUBLIC,
  type TestNetwork,
  UPLINK_MTU,
} from './test-network.ts'
import { findTestObstacle } from './test-obstacle.ts'

const obstacle = findTestObstacle(['bwrap', 'pasta', 'nft', 'ip', 'nsenter', 'setpriv', 'prlimit'])

const CARRIERS = [
  { kind: 'pasta' as const, links: 0 },
  // A link and a table for the hub, in the machine's own namespace.
  { kind: 'veth' as const, links: 1 },
]

describe.each(CARRIERS)('the network of deployments, by $kind', unless(obstacle), (carrier) => {
  const folder = mkdtempSync(join(tmpdir(), 'network-walls-'))
  let network: TestNetwork
  let made = 0
  const report = (): Promise<unknown> => network.report()

  interface Machine extends MachineProgram<Request> {
    dial(name: string, dials: Dial[]): Promise<string[]>
  }
  const startMachine = async (options: Partial<SandboxOptions> = {}, ownAddress = OWN): Promise<Machine> => {
    made += 1
    const settings = {
      folder: join(folder, `sandbox-${made}`),
      mode: 'required',
      network: carrier.kind,
      machineAddresses: [NODE, 'fd00::7'],
      ...options,
    }
    const script = join(import.meta.dirname, 'namespace-sandbox.ts')
    const program = await network.startProgram<Request>(script, [JSON.stringify(settings), ownAddress])
    return {
      ...program,
      dial: async (name, dials) => {
        const said = await program.ask({ kind: 'run', name, networkId: name, code: dialAll(dials) })
        return JSON.parse(said as string) as string[]
      },
    }
  }

  beforeAll(async () => {
    network = await openTestNetwork()
  })
  afterEach(() => network.endPrograms(), 60_000)
  afterAll(async () => {
    await network?.close()
    rmSync(folder, { recursive: true, force: true })
  })

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

    // The last datagram arrives after all the others.
    const answers = await dial('closed', [...CLOSED, { udp: [PUBLIC, 80] }])
    expect(answers.slice(0, -1).filter((each) => !each.startsWith('failed'))).toEqual([])
    expect(answers.at(-1)).toBe('I am here')
    // The two redirects, and the last datagram.
    expect(await report()).toEqual({ public: 3 })
    expect(await ask({ kind: 'arrivals' })).toBe(0)

    // Checks the counters: without the rules everything arrives.
    await ask({ kind: 'removeRules', of: 'hub' })
    await dial('open-again', ARRIVING)
    expect(await report()).toMatchObject({
      private: expect.any(Number),
      metadata: expect.any(Number),
      mapped: expect.any(Number),
      node: expect.any(Number),
    })
    if (carrier.kind === 'veth') {
      // The machine itself has rules of its own.
      expect(await ask({ kind: 'arrivals' })).toBe(0)
      await ask({ kind: 'removeRules', of: 'machine' })
      await dial('open-at-last', ARRIVING)
    }
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
    const listening = await ask({
      kind: 'run',
      name: 'first',
      networkId: 'one',
      code: LISTENER,
      waitsForOutput: true,
    })
    const address = (listening as string).trim()
    const code = visit(address)
    const other = JSON.parse((await ask({ kind: 'run', name: 'other', networkId: 'two', code })) as string) as string[]
    expect(other.filter((each) => !each.startsWith('failed'))).toEqual([])
    const same = await ask({ kind: 'run', name: 'same', networkId: 'one', code })
    expect(JSON.parse(same as string)).toEqual(['I am the neighbour', 'I am the neighbour'])
    await ask({ kind: 'close' })
  })

  interface Networks {
    namespaces: string[]
    links: string[]
    tables: string[]
    warnings: string[]
  }
  /** What a machine holds for its networks. */
  const networksOf = async ({ ask }: Machine): Promise<Omit<Networks, 'warnings'>> => {
    const { warnings: _, ...networks } = (await ask({ kind: 'networks' })) as Networks
    return networks
  }
  const nothing = { namespaces: [], links: [], tables: [] }

  test('a network goes some time after its last command, and the hub with the last network', async () => {
    const machine = await startMachine({ networkIdleMs: 200 })
    const { ask, dial } = machine
    expect(await networksOf(machine)).toEqual(nothing)
    await dial('one', [{ url: `http://${PUBLIC}/` }])
    const { namespaces, links, tables } = await networksOf(machine)
    expect([namespaces.length, links.length, tables.length]).toEqual([2, carrier.links, carrier.links])
    await expect.poll(() => networksOf(machine)).toEqual(nothing)
    expect(await dial('two', [{ url: `http://${PUBLIC}/` }])).toEqual(['I am public'])
    await ask({ kind: 'close' })
    expect(await networksOf(machine)).toEqual(nothing)
  })

  if (carrier.kind === 'veth') {
    test('packets of a deployment are as large as the uplink of its machine takes', async () => {
      const { ask, dial } = await startMachine()
      await dial('one', [{ url: `http://${PUBLIC}/` }])
      expect(await ask({ kind: 'mtu' })).toBe(UPLINK_MTU)
      await ask({ kind: 'close' })
    })

    test('two sandboxes of one machine have a hub each, also where both would take the same addresses', async () => {
      // The ids of such folders are equal modulo 512.
      const seen = new Map<number, string>()
      let folders: [string, string] | undefined
      for (let n = 0; folders === undefined; n++) {
        const own = join(folder, `slot-${n}`)
        mkdirSync(own)
        const slot = Number.parseInt(idOf(own), 36) % 512
        const other = seen.get(slot)
        if (other !== undefined) folders = [other, own]
        seen.set(slot, own)
      }
      const machines = [await startMachine({ folder: folders[0] }), await startMachine({ folder: folders[1] }, '')]
      for (const [index, { ask }] of machines.entries()) {
        const code = `console.log('up'); setInterval(() => {}, 1000)`
        await ask({ kind: 'run', name: `steady-${index}`, networkId: 'steady', code, waitsForOutput: true })
      }
      for (const { dial } of machines)
        expect(await dial('one', [{ url: `http://${PUBLIC}/` }, { url: 'http://10.0.0.1/' }])).toEqual([
          'I am public',
          expect.stringMatching(/^failed/),
        ])
      const [first, second] = machines
      await first?.ask({ kind: 'close' })
      expect(await second?.dial('two', [{ url: 'http://public.example/' }])).toEqual(['I am public'])
      await second?.ask({ kind: 'close' })
    })

    test('a machine that has no file descriptor left for a while goes on with its networks', async () => {
      const { ask, dial } = await startMachine()
      await dial('one', [{ url: `http://${PUBLIC}/` }])
      expect(await ask({ kind: 'exhaust', ms: 2_500 })).toBeGreaterThan(100)
      expect(await dial('two', [{ url: `http://${PUBLIC}/` }])).toEqual(['I am public'])
      await ask({ kind: 'close' })
    })

    test('the machine passes nothing on for other hosts while it has a hub, and not in the hub’s name where it does so anyway', async () => {
      const stranger = '203.0.113.77'
      const { ask, dial } = await startMachine()
      const code = `console.log('up'); setInterval(() => {}, 1000)`
      const before = await ask({ kind: 'forwarding', value: '0' })
      const open = (): Promise<unknown> =>
        ask({ kind: 'run', name: 'steady', networkId: 'steady', code, waitsForOutput: true })
      await open()
      expect([before, await ask({ kind: 'forwarding' })]).toEqual(['0', '1'])
      expect(network.passesOn(stranger)).toBe(false)
      expect(await dial('one', [{ url: `http://${PUBLIC}/` }])).toEqual(['I am public'])
      await ask({ kind: 'close' })
      expect(await ask({ kind: 'forwarding' })).toBe('0')

      const router = await startMachine({}, '')
      await router.ask({ kind: 'forwarding', value: '1' })
      expect(network.passesOn(stranger)).toBe(true)
      await router.dial('one', [{ url: `http://${PUBLIC}/` }])
      expect(network.passesOn(stranger)).toBe(true)
      expect(network.passesOn((await router.ask({ kind: 'hubAddress' })) as string)).toBe(false)
      await router.ask({ kind: 'close' })
      expect(await router.ask({ kind: 'forwarding' })).toBe('1')
      await router.ask({ kind: 'forwarding', value: '0' })
    })

    test('rules of a hub that somebody removes are made again', async () => {
      const { ask, dial } = await startMachine()
      await dial('one', [{ url: `http://${PUBLIC}/` }])
      await ask({ kind: 'endHub', by: 'rules' })
      await expect
        .poll(() => ask({ kind: 'networks' }))
        .toHaveProperty('warnings', ['The network of Functions ended, and is started anew: its rules were removed'])
      expect(await dial('two', [{ url: `http://${PUBLIC}/` }])).toEqual(['I am public'])
      await ask({ kind: 'close' })
    })
  }

  test('a hub whose program ends is started anew, and what runs is joined with it again', async () => {
    const { ask, dial } = await startMachine()
    const code = `console.log('up'); setInterval(() => fetch('http://${PUBLIC}/').then(() => {}, () => {}), 50)`
    await ask({ kind: 'run', name: 'steady', networkId: 'steady', code, waitsForOutput: true })
    await expect.poll(report).toHaveProperty('public')
    await ask({ kind: 'endHub' })
    await expect.poll(() => ask({ kind: 'networks' })).toHaveProperty('warnings.length', 1)
    expect(await dial('next', [{ url: `http://${PUBLIC}/` }, { url: 'http://10.0.0.1/' }])).toEqual([
      'I am public',
      expect.stringMatching(/^failed/),
    ])
    await report()
    await expect.poll(report).toHaveProperty('public')
    await ask({ kind: 'stop', name: 'steady' })
    await ask({ kind: 'close' })
  })

  test('a killed machine leaves no network to the next', async () => {
    const own = join(folder, `killed-${carrier.kind}`)
    const first = await startMachine({ folder: own })
    const code = `console.log('up'); setInterval(() => {}, 1000)`
    await first.ask({ kind: 'run', name: 'steady', networkId: 'steady', code, waitsForOutput: true })
    expect((await networksOf(first)).tables).toHaveLength(carrier.links)
    await first.end()
    const next = await startMachine({ folder: own })
    expect(await networksOf(next)).toEqual(nothing)
    expect(await next.dial('again', [{ url: `http://${PUBLIC}/` }])).toEqual(['I am public'])
    await next.ask({ kind: 'close' })
  })
})
