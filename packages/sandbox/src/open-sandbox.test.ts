import { spawn } from 'node:child_process'
import { mkdtempSync, openSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { unless } from '@platform/test-runner/task-meta'
import { afterAll, describe, expect, test } from 'vitest'
import { parseEgressAllowance } from './egress-rules.ts'
import { openSandbox, type SandboxOptions } from './open-sandbox.ts'
import { findTestObstacle } from './test-obstacle.ts'

const obstacle = findTestObstacle(['bwrap', 'pasta', 'nft', 'ip', 'setpriv', 'prlimit', 'unshare', 'mount'])
const folder = mkdtempSync(join(tmpdir(), 'open-sandbox-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const OPEN = join(import.meta.dirname, 'open-sandbox.ts')
let made = 0

describe('where something is missing', { ...unless(obstacle), timeout: 60_000 }, () => {
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
