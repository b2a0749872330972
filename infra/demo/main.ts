import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { readAddresses } from '../launcher/addresses.ts'
import { clients, demoEmail } from '../launcher/clients.ts'
import { readLauncherConfig } from '../launcher/config.ts'
import { readSecrets } from '../launcher/secrets.ts'
import { walk } from './walk.ts'

const repository = resolve(import.meta.dirname, '../..')

interface Running {
  baseUrl: string
  idpUrl: string
  demo: { email: string; password: string }
  stop: () => Promise<void>
}

/** Finds the platform of this data folder, if it answers at its recorded address. */
async function findRunning(): Promise<Running | undefined> {
  // oxlint-disable-next-line node/no-process-env -- the demo's one read of its environment
  const { dataFolder } = readLauncherConfig(process.env, repository)
  const addresses = await readAddresses(dataFolder)
  if (!addresses) return undefined
  const { baseUrl, idpUrl } = addresses
  const answers = await Promise.all(
    [`${baseUrl}/.well-known/jwks.json`, `${idpUrl}/.well-known/openid-configuration`].map((url) =>
      fetch(url).then(
        ({ ok }) => ok,
        () => false,
      ),
    ),
  )
  if (!answers.every(Boolean)) return undefined
  const { demoPassword } = await readSecrets(dataFolder)
  return { baseUrl, idpUrl, demo: { email: demoEmail, password: demoPassword }, stop: async () => {} }
}

/** Starts a platform, as `npm start -- --json` does, and waits for the line that it prints once everything answers. */
async function startOne(): Promise<Running> {
  const launcher = spawn(process.execPath, [resolve(repository, 'infra/launcher/main.ts'), '--json'], {
    stdio: ['ignore', 'pipe', 'inherit'],
    detached: true, // so that Ctrl-C ends the demo first, and the demo ends the platform
  })
  const ended = once(launcher, 'exit')
  const line = await Promise.race([once(createInterface(launcher.stdout), 'line'), ended.then(() => undefined)])
  if (!line) {
    process.stderr.write('The demo needs the platform, which did not start: the reason is above.\n')
    process.exit(1)
  }
  const started = JSON.parse(String(line[0])) as Omit<Running, 'stop'>
  const stop = async () => {
    launcher.kill('SIGTERM')
    await ended
  }
  process.once('SIGINT', () => void stop().then(() => process.exit(130)))
  return { ...started, stop }
}

const platform = (await findRunning()) ?? (await startOne())
let exitCode = 0
try {
  await walk({ ...platform, cliClientId: clients.cli.id })
} catch (error) {
  process.stderr.write(
    `\nThe demo stopped at a wrong answer.\n${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`,
  )
  exitCode = 1
}
await platform.stop()
process.exit(exitCode)
