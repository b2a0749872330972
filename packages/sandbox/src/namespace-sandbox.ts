import { execFileSync } from 'node:child_process'
import { createServer } from 'node:http'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { idOf, openSandbox, type SandboxOptions } from './open-sandbox.ts'
import type { SandboxedProcess } from './sandbox.ts'

/**
 * The machine of the test: a separate program that opens a sandbox within its network namespace, and does what messages
 * request. It listens on its loopback and its own address too, and counts arrivals there.
 */
export type Request =
  | { kind: 'run'; name: string; networkId: string; code: string; waitsForOutput?: boolean }
  | { kind: 'stop'; name: string }
  | { kind: 'arrivals' }
  | { kind: 'networks' }
  | { kind: 'removeRules' }
  | { kind: 'endHub' }
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
for (const [address, port] of [
  ['127.0.0.1', 80],
  [ownAddress, 80],
] as const) {
  const server = createServer((_, response) => response.end('I am the machine'))
  server.on('connection', () => (arrivals += 1))
  server.listen(port, address)
  await once(server, 'listening')
}

/** Prefix of this sandbox's namespaces: others may be tested at the same time. */
const prefix = `sandbox-${idOf(settings.folder)}-`
const listNamespaces = (): string[] =>
  readdirSync('/run/netns')
    .filter((name) => name.startsWith(prefix))
    .toSorted()
const getHub = (): string => {
  const hub = listNamespaces().find((name) => name.endsWith('-hub'))
  if (hub === undefined) throw new Error('There is no hub')
  return hub
}

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
      return { namespaces: listNamespaces(), warnings }
    case 'removeRules':
      return execFileSync('nsenter', [
        `--net=/run/netns/${getHub()}`,
        'nft',
        'delete',
        'table',
        'inet',
        'walls',
      ]).toString()
    case 'endHub':
      return process.kill(Number(readFileSync(join(settings.folder, 'pasta.pid'), 'utf8')), 'SIGKILL')
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
