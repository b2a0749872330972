import { createServer, type Server } from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import {
  CLOSED,
  type Dial,
  dialAll,
  type MachineProgram,
  openTestNetwork,
  PUBLIC,
  type TestNetwork,
} from '@platform/sandbox/test-network'
import { findTestObstacle } from '@platform/sandbox/test-obstacle'
import { unless } from '@platform/test-runner/task-meta'
import { type PackageRegistry, startPackageRegistry } from '@platform/testkit/package-registry'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Request } from './namespace-builder.ts'
import { openTestBuilder, type TestBuilder } from './test-builds.ts'
import { GREETER, greetingProject, shellProject } from './test-projects.ts'

const obstacle = findTestObstacle(['bwrap', 'pasta', 'nft', 'ip', 'nsenter', 'setpriv', 'prlimit', 'unshare'])
/** Functions for a build in plain JavaScript: a request by an absolute address, a tunnel, and a direct connection. */
const ASK = `
  const http = require('node:http'), net = require('node:net')
  const proxy = { host: '127.0.0.1', port: 3128 }
  const read = (response, resolve) => { let text = ''; response.on('data', (chunk) => (text += chunk)).on('end', () => resolve(response.statusCode + ' ' + text)) }
  const absolute = (url) => new Promise((resolve) => http.get({ ...proxy, path: url }, (response) => read(response, resolve)).on('error', (error) => resolve(error.code)))
  const tunnel = (place) => new Promise((resolve) => http.request({ ...proxy, method: 'CONNECT', path: place }).on('connect', (response, socket, head) => {
    if (response.statusCode !== 200) { let text = String(head); socket.on('data', (chunk) => (text += chunk)).on('end', () => resolve(response.statusCode + ' ' + text)); return }
    http.get({ createConnection: () => socket, path: '/greeter', headers: { host: place } }, (inner) => read(inner, resolve))
  }).on('error', (error) => resolve(error.code)).end())
  const dial = (host, port) => new Promise((resolve) => net.connect(port, host, function () { resolve('connected'); this.destroy() }).on('error', (error) => resolve(error.code)))
  const answer = (answers) => { console.log('ANSWERS' + JSON.stringify(answers)); process.exit() }
`
const answersOf = ({ output }: { output: string }): unknown => JSON.parse(/^ANSWERS(.*)$/m.exec(output)?.[1] ?? 'null')
const inNode = (code: string) => shellProject('node build.cjs', { 'build.cjs': `${ASK};(async () => { ${code} })()` })
const portOf = (server: Server): number => (server.address() as AddressInfo).port

async function listen(server: Server, host: string): Promise<Server> {
  server.listen(0, host)
  await once(server, 'listening')
  return server
}

describe('the network of builds', unless(obstacle), () => {
  describe('registry', () => {
    let registry: PackageRegistry
    let other: Server
    let arrivals = 0
    /** A registry that redirects every request except /greeter to `other`. */
    let moving: Server
    let tested: TestBuilder
    beforeAll(async () => {
      registry = await startPackageRegistry([GREETER])
      other = await listen(
        createServer((_, response) => response.end('I am another')),
        '127.0.0.3',
      )
      other.on('connection', () => (arrivals += 1))
      moving = createServer((request, response) => {
        if (request.url === '/greeter') response.end('I am a registry')
        else response.writeHead(302, { location: `http://127.0.0.3:${portOf(other)}/` }).end()
      })
      await listen(moving, '127.0.0.4')
      tested = openTestBuilder('registry', [registry.url, `http://127.0.0.4:${portOf(moving)}`])
    })
    afterAll(async () => {
      await tested?.[Symbol.asyncDispose]()
      await registry?.close()
      for (const server of [other, moving]) server?.close()
    })

    test('registries are reached through the proxy, and no other host, port or way', async () => {
      const [own, away] = [`127.0.0.4:${portOf(moving)}`, `127.0.0.3:${portOf(other)}`]
      const port = portOf(moving)
      const places = [
        away,
        `127.0.0.4:${portOf(other)}`,
        `localhost:${port}`,
        `127.0.0.1:${port}`,
        `127.0.0.4:${port}@${away}`,
        `[::ffff:127.0.0.4]:${port}`,
        '169.254.169.254:80',
        `127.0.0.4`,
      ]
      const built = await tested.build(
        inNode(`answer({
          absolute: await absolute('http://${own}/greeter'), tunnel: await tunnel('${own}'),
          redirect: (await absolute('http://${own}/moved')).slice(0, 4),
          followed: await fetch('http://${own}/moved').then((response) => response.status, (error) => error.cause.cause.message),
          refused: [...await Promise.all(${JSON.stringify(places)}.map(tunnel)), ...await Promise.all(${JSON.stringify([...places.slice(0, 4).map((place) => `http://${place}/`), `http://${own}@${away}/`, `https://${own}/`, 'ftp://127.0.0.4/', '/greeter'])}.map(absolute))].map((text) => text.slice(0, 4)),
          sentence: await tunnel('${away}'),
          direct: [await dial('127.0.0.4', ${port}), await dial('127.0.0.3', ${portOf(other)}), await dial('127.0.0.1', ${portOf(other)}), await dial('169.254.169.254', 80), await dial('10.0.0.1', 80)],
        })`),
      )
      const names = `${registry.url}, http://${own}`
      expect(answersOf(built), built.output).toEqual({
        absolute: '200 I am a registry',
        tunnel: '200 I am a registry',
        redirect: '302 ',
        followed: 'Proxy response (403) !== 200 when HTTP Tunneling',
        refused: Array.from({ length: 16 }, () => '403 '),
        sentence: `403 ${away} is not among the registries that builds may reach: ${names}\n`,
        direct: ['ECONNREFUSED', 'ECONNREFUSED', 'ECONNREFUSED', 'ENETUNREACH', 'ENETUNREACH'],
      })
      expect(arrivals).toBe(0)
    })

    test('connections beyond those that the proxy takes wait for their turn, and none is dropped', async () => {
      const code = `let held = []
        const ask = () => new Promise((resolve) => {
          const socket = net.connect(proxy).on('error', () => {}).once('close', () => resolve('dropped'))
          socket.write('CONNECT 127.0.0.4:${portOf(moving)} HTTP/1.1\\r\\n\\r\\n')
          socket.once('data', (head) => {
            resolve(String(head).slice(9, 12))
            held.push(socket)
            if (held.length === 200) for (const each of held.splice(0)) each.destroy()
          })
        })
        answer([...new Set(await Promise.all(Array.from({ length: 600 }, ask)))])`
      const { output, failure } = await tested.build(inNode(code))
      expect(failure, output).toBeUndefined()
      expect(answersOf({ output })).toEqual(['200'])
    })

    test('one that takes all connections of its proxy takes none of another’s', async () => {
      const held = Promise.withResolvers<void>()
      const controller = new AbortController()
      const code = `for (let n = 0; n < 1000; n++) net.connect('/run/registry.sock').on('error', () => {})
        const last = net.connect('/run/registry.sock').on('close', () => console.log('held')).on('error', () => {})`
      const greedy = tested.build(inNode(code), {
        signal: controller.signal,
        onOutput: (chunk) => void (chunk.includes('held') && held.resolve()),
      })
      const ended = greedy.catch(() => undefined)
      await held.promise
      const { output, failure } = await tested.build(
        inNode(`answer(await absolute('http://127.0.0.4:${portOf(moving)}/greeter'))`),
      )
      expect(failure, output).toBeUndefined()
      expect(answersOf({ output })).toBe('200 I am a registry')
      controller.abort(new Error('It is over'))
      await ended
    })
  })

  describe('none', () => {
    let registry: PackageRegistry
    let tested: TestBuilder
    beforeAll(async () => {
      registry = await startPackageRegistry([GREETER])
      tested = openTestBuilder('none')
    })
    afterAll(async () => {
      await tested?.[Symbol.asyncDispose]()
      await registry?.close()
    })

    test('nothing is reached but what the build itself serves', async () => {
      const { port } = new URL(registry.url)
      const built = await tested.build(
        inNode(`const server = http.createServer((_, response) => response.end('own')).listen(0, '127.0.0.1', async () => answer([
          await fetch('http://localhost:' + server.address().port).then((response) => response.text()),
          await dial('127.0.0.2', ${port}), await dial('127.0.0.1', 3128), await dial('203.0.113.9', 80), await dial('10.0.0.1', 80),
          await require('node:dns').promises.lookup('example.com').catch((error) => error.code), Object.keys(process.env).filter((name) => /proxy/i.test(name)).length,
        ]))`),
      )
      expect(answersOf(built), built.output).toEqual([
        'own',
        'ECONNREFUSED',
        'ECONNREFUSED',
        'ENETUNREACH',
        'ENETUNREACH',
        expect.stringMatching(/^E/),
        0,
      ])
    })

    test.each<[Parameters<typeof greetingProject>[0], string, RegExp]>([
      ['npm', 'npm ci --include=dev --no-audit --no-fund', /ENOTCACHED|cache mode is 'only-if-cached'/],
      ['pnpm', 'pnpm install --frozen-lockfile', /OFFLINE|offline/],
      ['yarn', 'yarn install --frozen-lockfile --non-interactive', /offline/],
      ['berry', 'yarn install --immutable', /blocked because of your configuration/],
    ])('%s fails at once, and its log says why', async (kind, command, reason) => {
      // Unless told that it is offline, each would retry for a minute, and the limit would end the build.
      const { failure, output } = await tested.build(greetingProject(kind, registry), { limits: { timeoutMs: 45_000 } })
      expect(failure, output).toMatch(new RegExp(`^\`${command}\` ended with exit code \\d+$`))
      expect(output).toMatch(reason)
      expect(registry.requests).toEqual([])
    })
  })

  describe.each(['pasta', 'veth'])('public, by %s', (kind) => {
    let network: TestNetwork
    let machine: MachineProgram<Request>
    beforeAll(async () => {
      network = await openTestNetwork()
      machine = await network.startProgram(join(import.meta.dirname, 'namespace-builder.ts'), [kind])
    })
    afterAll(async () => {
      await machine?.ask({ kind: 'close' })
      await network?.close()
    })

    const dial = async (dials: Dial[]): Promise<string[]> => {
      const { output, failure } = (await machine.ask({ kind: 'build', code: dialAll(dials) })) as {
        output: string
        failure?: string
      }
      expect(failure, output).toBeUndefined()
      return JSON.parse(output.slice(output.indexOf('['))) as string[]
    }

    test('public hosts are reached, and private, metadata and mapped addresses by no spelling', async () => {
      await network.report()
      expect(await dial([{ url: `http://${PUBLIC}/` }, { url: 'http://public.example/' }])).toEqual([
        'I am public',
        'I am public',
      ])
      expect(await network.report()).toEqual({ public: 2 })
      // The last datagram arrives after all the others.
      const answers = await dial([...CLOSED, { udp: [PUBLIC, 80] }])
      expect(answers.slice(0, -1).filter((each) => !each.startsWith('failed'))).toEqual([])
      expect(answers.at(-1)).toBe('I am here')
      // The two redirects, and the last datagram.
      expect(await network.report()).toEqual({ public: 3 })
    })
  })
})
