import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { linkAddress, NAME_SERVER, OUTSIDE } from './egress-rules.ts'
import { type Carrier, NAMESPACES } from './network-carrier.ts'
import { SYSTEM_PATH } from './run-program.ts'

/** The MTU of pasta's own interface. A smaller one would make it split what it sends. */
const MTU = 65_520
const START_MS = 10_000
/** At the end of LINKS: pasta's side of the hub's link, and the hub's. */
const GATEWAY = linkAddress(0x1_ff_01)
const HUB_ADDRESS = linkAddress(0x1_ff_02)

/**
 * Carries by the program pasta, which translates connections in user space and changes nothing of this machine. folder: absolute;
 * holds its pid file.
 */
export function createPastaCarrier(folder: string): Carrier {
  const pidFile = join(folder, 'pasta.pid')
  let program: ChildProcess | undefined
  return {
    async open(hub, onEnd) {
      rmSync(pidFile, { force: true })
      // prettier-ignore
      const args = [
        '--pdeathsig', 'KILL', 'pasta', '--foreground', '--quiet', '--pid', pidFile, '--runas', '0:0', '--netns-only',
        '--config-net', '--ipv4-only', '--ns-ifname', OUTSIDE, '--address', HUB_ADDRESS, '--netmask', '30', '--gateway', GATEWAY,
        '--tcp-ports', 'none', '--udp-ports', 'none', '--tcp-ns', 'none', '--udp-ns', 'none', '--no-map-gw',
        '--dns-forward', NAME_SERVER, '--netns', join(NAMESPACES, hub),
      ]
      const child = spawn('setpriv', args, {
        env: { PATH: SYSTEM_PATH },
        cwd: '/',
        stdio: ['ignore', 'ignore', 'pipe'],
      })
      let said = ''
      child.stderr.on('data', (chunk: Buffer) => {
        // Without a system log, pasta complains about that after every line.
        said = `${said}${chunk.toString().replaceAll(/^Failed to send .* syslog$\n?/gm, '')}`.slice(-2000)
      })
      program = child
      await new Promise<void>((resolve, reject) => {
        const until = Date.now() + START_MS
        const look = setInterval(() => {
          if (existsSync(pidFile)) settle()
          else if (Date.now() > until) settle(new Error(`pasta did not start within ${START_MS / 1_000} s`))
        }, 3)
        const settle = (error?: Error): void => {
          clearInterval(look)
          child.removeListener('exit', exited)
          child.removeListener('error', settle)
          if (error === undefined) resolve()
          else reject(error)
        }
        const exited = (): void => settle(new Error(`pasta did not start: ${said.trim()}`))
        child.on('exit', exited)
        child.on('error', settle)
      })
      child.on('error', () => undefined)
      child.on('exit', (code, signal) => {
        if (program !== child) return
        program = undefined
        onEnd(`pasta ended by ${signal ?? `code ${code}`}. ${said.trim()}`.trim())
      })
      return MTU
    },
    async close() {
      const child = program
      program = undefined
      if (child === undefined || child.exitCode !== null || child.signalCode !== null) return
      const ended = new Promise((resolve) => child.once('exit', resolve))
      child.kill('SIGKILL')
      await ended
    },
  }
}
