import { execFileSync } from 'node:child_process'
import { createServer } from 'node:http'
import { once } from 'node:events'
import { closeSync, openSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { idOf, openSandbox, type SandboxOptions } from './open-sandbox.ts'
import type { SandboxedProcess } from './sandbox.ts'

/**
 * The machine of the test: a separate program that opens a sandbox within its network namespace, and does what messages
 * request. If it is given its own address, it listens there and on its loopback, and counts arrivals.
 */
export type Request =
  | { kind: 'run'; name: string; networkId: string; code: string; waitsForOutput?: boolean }
  | { kind: 'stop'; name: string }
  | { kind: 'arrivals' }
  | { kind: 'networks' }
  /** MTU of a network's interface. */
  | { kind: 'mtu' }
  /** Those of the hub's namespace, or of the machine's own, which keep the hub from the machine itself. */
  | { kind: 'removeRules'; of: 'hub' | 'machine' }
  /** Deletes its link or ends its program, or removes all rules of the machine. */
  | { kind: 'endHub'; by?: 'rules' }
  /** Sets whether the machine passes packets on, or asks for it. */
  | { kind: 'forwarding'; value?: '0' | '1' }
  /** The hub's address on its link. */
  | { kind: 'hubAddress' }
  /** Leaves no file descriptor free for some seconds. */
  | { kind: 'exhaust'; ms: number }
  | { kind: 'close' }

const [options = '{}', ownAddress = ''] = process.argv.slice(2)
const settings = JSON.parse(options) as SandboxOptions
const warnings: string[] = []
const sandbox = await openSandbox({
  ...settings,
  onWarning: (message) => void warnings.push(message),
})
const running = new Map<string, SandboxedProcess>()
let arrivals = 0
for (const address of ownAddress === '' ? [] : ['127.0.0.1', ownAddress]) {
  const server = createServer((_, response) => response.end('I am the machine'))
  server.on('connection', () => (arrivals += 1))
  server.listen(80, address)
  await once(server, 'listening')
}

/** Prefix of this sandbox's namespaces: others may be tested at the same time. */
const id = idOf(settings.folder)
const prefix = `sandbox-${id}-`
const listNamespaces = (): string[] =>
  readdirSync('/run/netns')
    .filter((name) => name.startsWith(prefix))
    .toSorted()
const getHub = (): string => {
  const hub = listNamespaces().find((name) => name.endsWith('-hub'))
  if (hub === undefined) throw new Error('There is no hub')
  return hub
}

const FORWARDING = '/proc/sys/net/ipv4/ip_forward'
const run = (program: string, ...args: string[]): string =>
  execFileSync(program, args, { encoding: 'utf8', stdio: 'pipe' })
/** Links and tables of rules in the machine's own namespace that it had not before any sandbox. */
const listOwn = (): { links: string[]; tables: string[] } => ({
  links: (JSON.parse(run('ip', '-json', 'link')) as { ifname: string }[])
    .map(({ ifname }) => ifname)
    .filter((name) => !['lo', 'uplink'].includes(name)),
  tables: run('nft', 'list', 'tables')
    .split('\n')
    .filter((line) => line !== ''),
})

async function answer(request: Request): Promise<unknown> {
  switch (request.kind) {
    case 'run': {
      const started = await sandbox.start({
        name: request.name,
        networkId: request.networkId,
        argv: [process.execPath, '-e', request.code],
        env: {},
        mounts: [],
        workingDirectory: '/tmp',
        limits: { memoryBytes: 256 * 2 ** 20, processes: 60, openFiles: 1024, tmpBytes: 2 ** 20, cpuShare: 100 },
      })
      if (request.waitsForOutput === true) {
        running.set(request.name, started)
        const [chunk] = (await once(started.stdout, 'data')) as [Buffer]
        return chunk.toString()
      }
      const [said, complained] = await Promise.all([text(started.stdout), text(started.stderr), started.exited])
      return said === '' ? complained : said
    }
    case 'stop': {
      const started = running.get(request.name)
      started?.kill()
      return started?.exited
    }
    case 'arrivals': {
      const before = arrivals
      arrivals = 0
      return before
    }
    case 'networks':
      return { namespaces: listNamespaces(), ...listOwn(), warnings }
    case 'mtu': {
      const name = listNamespaces().find((each) => !each.endsWith('-hub')) ?? ''
      const [link] = JSON.parse(run('ip', '-netns', name, '-json', 'link', 'show', 'eth0')) as { mtu: number }[]
      return link?.mtu
    }
    case 'removeRules':
      return request.of === 'hub'
        ? run('nsenter', `--net=/run/netns/${getHub()}`, 'nft', 'delete', 'table', 'inet', 'walls')
        : run('nft', 'flush', 'chain', 'inet', `sandbox_${id}`, 'input')
    case 'forwarding':
      if (request.value !== undefined) writeFileSync(FORWARDING, request.value)
      return readFileSync(FORWARDING, 'utf8').trim()
    case 'hubAddress':
      return /inet (\S+)\/30/.exec(run('ip', '-netns', getHub(), 'address', 'show', 'outside'))?.[1]
    case 'exhaust': {
      run('prlimit', '--pid', String(process.pid), '--nofile=500:')
      const open: number[] = []
      try {
        for (;;) open.push(openSync('/dev/null', 'r'))
      } catch {
        await sleep(request.ms)
        for (const descriptor of open) closeSync(descriptor)
        return open.length
      }
    }
    case 'endHub':
      if (request.by === 'rules') return run('nft', 'flush', 'ruleset')
      return settings.network === 'veth'
        ? run('ip', 'link', 'delete', `hub-${id}`)
        : process.kill(Number(readFileSync(join(settings.folder, 'pasta.pid'), 'utf8')), 'SIGKILL')
    case 'close':
      return sandbox.close()
  }
}

process.on('message', (request: Request) => {
  answer(request).then(
    (value) => process.send?.({ value: value ?? null }),
    (error: unknown) => process.send?.({ error: error instanceof Error ? (error.stack ?? error.message) : 'unknown' }),
  )
})
process.send?.({ value: 'ready' })
