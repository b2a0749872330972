import { type ChildProcess, execFile, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, rmSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { unless } from '@platform/test-runner/task-meta'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'

// oxlint-disable-next-line node/no-process-env -- in CI the namespace has to be there
const { CI = '', PATH } = process.env
const isCi = !['', '0', 'false'].includes(CI)

/** Addresses of the namespace's own loopback: nothing leaves it, since it has no other interface. */
const PUBLIC = '8.8.8.8'
const PUBLIC_V6 = '2606:4700::1'
const NAME_SERVER = '8.8.4.4'
const CLOSED = [
  '127.0.0.1',
  '10.0.0.1',
  '172.16.0.1',
  '192.168.0.1',
  '169.254.169.254',
  '100.64.0.1',
  '198.18.0.1',
  '192.0.2.1',
  '::1',
  'fd00::1',
  'fec0::1',
  '64:ff9b::a00:1',
  '2002:a00:1::1',
  '2001:db8::1',
]
const NAMES = {
  'public.example': [PUBLIC],
  'private.example': ['10.0.0.1'],
  'both.example': [PUBLIC, '10.0.0.1'],
  'metadata.example': ['169.254.169.254'],
  'rebind.example': [PUBLIC, '10.0.0.1'],
}

const namespace = `guarded-fetch-${process.pid}`
const settings = join('/etc/netns', namespace)
const ip = (...args: string[]): void => void execFileSync('ip', args, { stdio: 'pipe' })
const urlOf = (address: string): string => (address.includes(':') ? `http://[${address}]/` : `http://${address}/`)

/** Returns why there can be no namespace here; undefined if there can. */
function tryNamespace(): string | undefined {
  if (process.platform !== 'linux') return 'network namespaces are of Linux'
  if (process.getuid?.() !== 0) return 'network namespaces need root'
  try {
    ip('netns', 'add', namespace)
    ip('netns', 'delete', namespace)
    return undefined
  } catch (error) {
    return `ip netns add failed: ${error instanceof Error ? error.message : 'unknown'}`
  }
}
const obstacle = tryNamespace()
if (obstacle !== undefined && isCi) throw new Error(`In CI there has to be a network namespace: ${obstacle}`)

interface Report {
  connections: Record<string, number>
  requests: Record<string, number>
  questions: Record<string, number>
}

describe('within a network namespace', unless(obstacle), () => {
  let hosts: ChildProcess | undefined
  const within = ['netns', 'exec', namespace, process.execPath]
  const script = (name: string): string => join(import.meta.dirname, name)

  async function tell(message: string): Promise<unknown> {
    if (hosts === undefined) throw new Error('The hosts are not up')
    const answer = once(hosts, 'message')
    hosts.send(message)
    const [received] = await answer
    return received
  }
  const report = async (): Promise<Report> => (await tell('report')) as Report

  async function probe(mode: 'guarded' | 'unguarded', urls: string[], allow: string[] = []): Promise<string[]> {
    const args = [...within, script('namespace-probe.ts'), mode, JSON.stringify(urls), JSON.stringify(allow)]
    // A proxy in the environment would be another host, and must not be used.
    const proxy = 'http://10.0.0.1'
    const env = { PATH, NODE_USE_ENV_PROXY: '1', HTTP_PROXY: proxy, http_proxy: proxy, ALL_PROXY: proxy }
    const { stdout } = await promisify(execFile)('ip', args, {
      timeout: 60_000,
      env: mode === 'guarded' ? env : { PATH },
    })
    return JSON.parse(stdout) as string[]
  }

  beforeAll(async () => {
    ip('netns', 'add', namespace)
    mkdirSync(settings, { recursive: true })
    writeFileSync(join(settings, 'resolv.conf'), `nameserver ${NAME_SERVER}\n`)
    ip('-n', namespace, 'link', 'set', 'lo', 'up')
    for (const address of [PUBLIC, PUBLIC_V6, NAME_SERVER, ...CLOSED])
      if (!['127.0.0.1', '::1'].includes(address))
        ip(
          '-n',
          namespace,
          'address',
          'add',
          `${address}/${address.includes(':') ? 128 : 32}`,
          'dev',
          'lo',
          ...(address.includes(':') ? ['nodad'] : []),
        )
    const args = [
      ...within,
      script('namespace-hosts.ts'),
      JSON.stringify([PUBLIC, PUBLIC_V6, ...CLOSED]),
      NAME_SERVER,
      JSON.stringify(NAMES),
    ]
    hosts = spawn('ip', args, { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
    await once(hosts, 'message')
  })
  beforeEach(async () => {
    await tell('reset')
  })
  afterAll(async () => {
    if (hosts !== undefined && hosts.exitCode === null) {
      const ended = once(hosts, 'exit')
      hosts.kill('SIGKILL')
      await ended
    }
    ip('netns', 'delete', namespace)
    rmSync(settings, { recursive: true, force: true })
    try {
      rmdirSync('/etc/netns')
    } catch {
      // Another's settings are there.
    }
  })

  test('every host answers whoever asks it unguarded', async () => {
    const results = await probe('unguarded', [PUBLIC, PUBLIC_V6, ...CLOSED].map(urlOf))
    expect(results).toEqual([PUBLIC, PUBLIC_V6, ...CLOSED].map((address) => `I am ${address}`))
    expect(await probe('unguarded', ['http://private.example/', 'http://localhost/'])).toEqual([
      'I am 10.0.0.1',
      expect.stringMatching(/^I am/),
    ])
  })

  test('public hosts are asked, by address and by name', async () => {
    const results = await probe('guarded', [urlOf(PUBLIC), urlOf(PUBLIC_V6), 'http://public.example/'])
    expect(results).toEqual([`200 I am ${PUBLIC}`, `200 I am ${PUBLIC_V6}`, `200 I am ${PUBLIC}`])
    expect((await report()).connections).toEqual({ [PUBLIC]: 2, [PUBLIC_V6]: 1 })
  })

  test('no other host is ever asked, however it is named', async () => {
    const urls = [
      ...CLOSED.map(urlOf),
      'http://private.example/',
      'http://both.example/',
      'http://metadata.example/',
      'http://localhost/',
      'http://2130706433/',
      'http://0/',
      'http://0x0a.1/',
      'http://[::ffff:10.0.0.1]/',
      'http://[::]/',
    ]
    expect(await probe('guarded', urls)).toEqual(urls.map(() => 'RefusedAddress'))
    expect((await report()).connections).toEqual({})
  })

  test('a redirect of a public host leads to no other', async () => {
    const targets = [...CLOSED.map(urlOf), 'http://private.example/', 'http://both.example/', '//10.0.0.1/']
    const urls = targets.map((to) => `http://public.example/?to=${encodeURIComponent(to)}`)
    expect(await probe('guarded', urls)).toEqual(urls.map(() => 'RefusedAddress'))
    expect((await report()).connections).toEqual({ [PUBLIC]: urls.length })
  })

  test('a name that changes its answer leads to no other', async () => {
    // Public, then private from then on: a client that resolves twice per connection would reach the private address.
    const url = 'http://rebind.example/'
    expect(await probe('guarded', [url, url, url])).toEqual([`200 I am ${PUBLIC}`, 'RefusedAddress', 'RefusedAddress'])
    const { connections, questions } = await report()
    expect(connections).toEqual({ [PUBLIC]: 1 })
    expect(questions).toEqual({ 'rebind.example': 3 })
  })

  test('an allowed host is asked, and its neighbours are not', async () => {
    const urls = ['http://10.0.0.1/', 'http://private.example/', 'http://172.16.0.1/', urlOf('fd00::1')]
    expect(await probe('guarded', urls, ['10.0.0.1', 'fd00::1'])).toEqual([
      '200 I am 10.0.0.1',
      '200 I am 10.0.0.1',
      'RefusedAddress',
      '200 I am fd00::1',
    ])
    expect((await report()).requests).toEqual({ '10.0.0.1': 2, 'fd00::1': 1 })
  })
})
