import { spawn } from 'node:child_process'
import { mkdtempSync, openSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { unless } from '@platform/test-runner/task-meta'
import { afterAll, describe, expect, test } from 'vitest'
import { parseEgressAllowance } from './egress-rules.ts'
import { isInMachineNetwork } from './machine-namespaces.ts'
import { openSandbox, type SandboxOptions } from './open-sandbox.ts'
import { findTestObstacle } from './test-obstacle.ts'

const obstacle = findTestObstacle(['bwrap', 'pasta', 'nft', 'ip', 'setpriv', 'prlimit', 'unshare', 'mount'])
const folder = mkdtempSync(join(tmpdir(), 'open-sandbox-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** The test of what is refused in the machine's own network runs there alone. */
const foreign = isInMachineNetwork() ? undefined : 'this network namespace is not the machine’s own'
const OPEN = join(import.meta.dirname, 'open-sandbox.ts')
let made = 0

describe('where something is missing', unless(obstacle), () => {
  /** The result of openSandbox on a machine that lacks a program. */
  async function openWithout(program: string, options: Omit<SandboxOptions, 'folder'>): Promise<string> {
    made += 1
    const code = `import { openSandbox } from ${JSON.stringify(OPEN)}
      openSandbox(${JSON.stringify({ folder: join(folder, `without-${made}`), ...options })}).then(
        (sandbox) => { console.log(sandbox.egress, JSON.stringify(sandbox.capabilities)); return sandbox.close() }, (error) => console.log(error.message))`
    // /dev/null is not executable.
    const hidden = `mount --bind /dev/null "$(command -v ${program})"; exec "$0" --input-type=module -e "$1"`
    const args = ['--mount', '--net', '--propagation', 'private', 'sh', '-ec', hidden, process.execPath, code]
    const child = spawn('unshare', args, { stdio: ['ignore', 'pipe', 'inherit'] })
    return text(child.stdout)
  }

  test('required without bubblewrap names its package', async () => {
    expect(await openWithout('bwrap', { mode: 'required' })).toMatch(
      /bwrap is not installed.*apt install bubblewrap.*FUNCTION_SANDBOX=none/,
    )
  })

  test('auto without bubblewrap runs plain processes only where the network is open by choice', async () => {
    expect(await openWithout('bwrap', { mode: 'auto' })).toMatch(/FUNCTION_EGRESS=host/)
    expect(await openWithout('bwrap', { mode: 'auto', egress: 'none' })).toMatch(/FUNCTION_EGRESS=host/)
    const opened = await openWithout('bwrap', { mode: 'auto', egress: 'host' })
    expect(opened).toMatch(/^host .*"isIsolated":false,"isNetworkClosed":false/)
    expect(opened).toMatch(/plain processes that can read this machine/)
  })

  test.each(['pasta', 'nft'])('a public network without %s says what to install or to set', async (program) => {
    expect(await openWithout(program, { mode: 'auto' })).toMatch(
      new RegExp(`not installed: ${program}.*passt, nftables.*FUNCTION_EGRESS=none.*FUNCTION_EGRESS=host`),
    )
    expect(await openWithout(program, { mode: 'required', egress: 'none' })).toMatch(/^none .*"isNetworkClosed":true/)
  })

  /** The result of openSandbox in a network namespace of its own, after a shell script. */
  async function openInOwnNetwork(script: string, more: Partial<SandboxOptions> = {}): Promise<string> {
    made += 1
    const options = { folder: join(folder, `own-${made}`), mode: 'required', network: 'veth', ...more }
    const code = `import { openSandbox } from ${JSON.stringify(OPEN)}
      openSandbox(${JSON.stringify(options)}).then(
        (sandbox) => { console.log(JSON.stringify(sandbox.capabilities)); return sandbox.close() }, (error) => console.log(error.message))`
    const node = [process.execPath, '--input-type=module', '-e', code]
    const args = [
      '--mount',
      '--net',
      '--propagation',
      'private',
      'sh',
      '-ec',
      `${script}\nexec $with "$@"`,
      'sh',
      ...node,
    ]
    return text(spawn('unshare', args, { stdio: ['ignore', 'pipe', 'inherit'] }).stdout)
  }
  const resolver = (server: string): string => {
    const file = join(folder, `resolv-${server}`)
    writeFileSync(file, `search example\nnameserver ::1\nnameserver ${server}\n`)
    return `mount --bind ${file} /etc/resolv.conf`
  }

  test('veth closes the network in a namespace of its own, without pasta', async () => {
    const script = `${resolver('10.96.0.10')}\nmount --bind /dev/null "$(command -v pasta)"`
    expect(await openInOwnNetwork(script)).toMatch(/"isIsolated":true,"isNetworkClosed":true/)
  })

  test.each([
    {
      what: 'a name server that is the process’s own',
      script: resolver('127.0.0.11'),
      sentence:
        /another IPv4 address, and \/etc\/resolv.conf has ::1, 127.0.0.11. FUNCTION_NETWORK=veth needs .*leave it out/,
    },
    {
      what: 'no right to change networks',
      script: `${resolver('10.96.0.10')}\nwith="setpriv --bounding-set -net_admin"`,
      sentence:
        /kept from private addresses: .* not have the capability NET_ADMIN\. Add NET_ADMIN to .*capabilities\.add.* in a pod, or to cap_add in Docker, or set FUNCTION_EGRESS=none/,
    },
  ])('veth with $what is refused with a sentence', async ({ script, sentence }) => {
    expect(await openInOwnNetwork(script)).toMatch(sentence)
  })

  test('pasta without its device is refused, and both ways to go on are named', async () => {
    expect(await openInOwnNetwork('[ ! -d /dev/net ] || mount -t tmpfs tmpfs /dev/net', { network: 'pasta' })).toMatch(
      /pasta needs the device \/dev\/net\/tun, .*\(ENOENT\)\. Give \/dev\/net\/tun to this process .*, or set FUNCTION_NETWORK=veth if /,
    )
  })

  test.each(['SETUID', 'SETGID', 'CHOWN', 'FOWNER', 'DAC_OVERRIDE', 'KILL'])(
    'users of their own are told as missing without the capability %s, which is named',
    async (name) => {
      const script = `with="setpriv --bounding-set -${name.toLowerCase()}"`
      const opened = await openInOwnNetwork(script, { egress: 'none' })
      expect(opened).toMatch(/"isIsolated":true.*"hasOwnUsers":false/)
      expect(opened).toContain(
        `Functions run as root without rights, because this process does not have the capability ${name}. Add ${name} to `,
      )
    },
  )

  test.each([
    {
      said: "bwrap: Can't mount proc on /newroot/proc: Operation not permitted",
      sentence:
        /some of \/proc is hidden .*Set procMount: Unmasked, with hostUsers: false, in a pod.*systempaths=unconfined/,
    },
    { said: 'bwrap: pivot_root: Operation not permitted', sentence: /seccompProfile: \{ type: Unconfined \} in a pod/ },
    {
      said: 'bwrap: Failed to make / slave: Permission denied',
      sentence: /appArmorProfile: \{ type: Unconfined \} in a pod/,
    },
  ])(
    'bubblewrap that says "$said" is refused with the setting of a container that lets it',
    async ({ said, sentence }) => {
      const file = join(folder, `bwrap-${(made += 1)}`)
      writeFileSync(file, `#!/bin/sh\necho "${said}" >&2\nexit 1\n`, { mode: 0o755 })
      const opened = await openInOwnNetwork(`mount --bind ${file} "$(command -v bwrap)"`)
      expect(opened).toContain(said)
      expect(opened).toMatch(sentence)
      expect(opened).not.toContain('apt install')
    },
  )

  test('veth is refused in the network of the machine itself', unless(foreign), async () => {
    const options = { folder: join(folder, 'veth'), mode: 'required' as const, network: 'veth' as const }
    await expect(openSandbox(options)).rejects.toThrow(
      /^Functions cannot be kept from private addresses: FUNCTION_NETWORK=veth would change the machine's own network/,
    )
  })

  test('the network of the machine, if chosen, is told as missing', async () => {
    const sandbox = await openSandbox({ folder: join(folder, 'host'), mode: 'required', egress: 'host' })
    expect(sandbox.capabilities).toMatchObject({ isIsolated: true, isNetworkClosed: false })
    expect(sandbox.capabilities.missing.join(' ')).toMatch(/FUNCTION_EGRESS=public/)
    await sandbox.close()
  })

  test('nothing that the platform was given is open in a command', async () => {
    const secret = join(folder, 'secret')
    writeFileSync(secret, 'secret')
    const command = {
      name: 'descriptors',
      networkId: 'descriptors',
      argv: [
        process.execPath,
        '-e',
        `const fs = require('node:fs'); console.log(fs.readdirSync('/proc/self/fd').map((fd) => { try { return fs.readlinkSync('/proc/self/fd/' + fd) } catch { return '' } }).join(' '))`,
      ],
      env: {},
      mounts: [],
      workingDirectory: '/',
      limits: { memoryBytes: 2 ** 28, processes: 60, openFiles: 256, tmpBytes: 2 ** 20, cpuShare: 100 },
    }
    const code = `import { openSandbox } from ${JSON.stringify(OPEN)}
      import fs from 'node:fs'
      const sandbox = await openSandbox(${JSON.stringify({ folder: join(folder, 'descriptors'), mode: 'required', egress: 'none' })})
      const started = await sandbox.start(${JSON.stringify(command)})
      console.log('platform', fs.readlinkSync('/proc/self/fd/90'))
      started.stdout.on('data', (chunk) => console.log('command', String(chunk)))
      await started.exited
      await sandbox.close()`
    const descriptor = openSync(secret, 'r')
    const stdio = Array.from({ length: 91 }, (_, index) => (index === 1 ? 'pipe' : index === 2 ? 'inherit' : 'ignore'))
    const child = spawn(process.execPath, ['--input-type=module', '-e', code], {
      stdio: [...(stdio.slice(0, 90) as 'pipe'[]), descriptor],
    })
    const said = await text(child.stdout as NonNullable<typeof child.stdout>)
    expect(said).toContain(`platform ${secret}`)
    expect(said).toMatch(/command \S/)
    expect(said.slice(said.indexOf('command'))).not.toContain('secret')
  })
})

test.each(['10.0.0.5', '10.0.0.5:5432', '10.0.0.0/24', '192.168.1.0/24:443'])('%s may be allowed', (text) => {
  const [range = '', port] = text.split(':')
  const whole = range.includes('/') ? range : `${range}/32`
  expect(parseEgressAllowance(text)).toEqual({ range: whole, port: port === undefined ? undefined : Number(port) })
})

test.each([
  '',
  'db.internal',
  '10.0.0',
  '10.0.0.5:0',
  '10.0.0.5:70000',
  '10.0.0.0/33',
  '::1',
  '1.2.3.4; flush ruleset',
])('"%s" is no host to allow', (text) => {
  expect(() => parseEgressAllowance(text)).toThrow(RangeError)
})
