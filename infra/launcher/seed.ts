import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { clients, demoEmail } from './clients.ts'
import type { Secrets } from './secrets.ts'
import { essence } from './service.ts'
import { StartProblem } from './start-problem.ts'

const grants = ['authorization_code', 'refresh_token', 'urn:ietf:params:oauth:grant-type:device_code']

/**
 * Gives a new data folder the demo account and the clients, through the identity provider's own command. Once per
 * folder: what a person changes afterwards stays. Safe to repeat after a start that was cut short.
 *
 * command: of Node, the script first. Throws StartProblem when the identity provider refuses.
 */
export async function seedOnce({
  dataFolder,
  secrets,
  command,
  cwd,
  env,
}: {
  dataFolder: string
  secrets: Secrets
  command: string[]
  cwd: string
  env: Record<string, string>
}): Promise<void> {
  const marker = join(dataFolder, 'seeded')
  if (existsSync(marker)) return

  const child = spawn(process.execPath, command, { cwd, env, stdio: ['pipe', 'ignore', 'pipe'] })
  child.stdin.on('error', () => {}) // it ended without reading, and says why on stderr
  child.stdin.end(JSON.stringify(describeSeed(secrets)))
  const [output, [code, signal]] = await Promise.all([
    child.stderr.toArray(),
    once(child, 'exit') as Promise<[number | null, string | null]>,
  ])
  if (code !== 0) {
    const lines = Buffer.concat(output as Buffer[])
      .toString('utf8')
      .split('\n')
      .filter((line) => line.trim() !== '')
    throw new StartProblem(
      `The demo account and clients could not be made (${signal ?? `exit code ${code}`}): ${essence(lines)}`,
    )
  }
  writeFileSync(marker, `${new Date().toISOString()}\n`)
}

function describeSeed(secrets: Secrets) {
  const ordinary = { postLogoutRedirectUris: [], grants, scopes: '*', isFirstParty: true }
  return {
    users: [{ email: demoEmail, givenName: 'Demo', familyName: 'Account', password: secrets.demoPassword }],
    clients: [
      {
        ...ordinary,
        id: clients.cli.id,
        name: clients.cli.name,
        kind: 'public',
        redirectUris: [clients.cli.redirectUri],
      },
      {
        ...ordinary,
        id: clients.console.id,
        name: clients.console.name,
        kind: 'public',
        redirectUris: [clients.console.redirectUri],
      },
      {
        ...ordinary,
        id: clients.confidential.id,
        name: clients.confidential.name,
        kind: 'confidential',
        secret: secrets.confidentialClientSecret,
        redirectUris: [clients.confidential.redirectUri],
      },
    ],
  }
}
