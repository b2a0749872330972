import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import { clients, demoEmail } from './clients.ts'
import type { Secrets } from './secrets.ts'
import { essence } from './service.ts'
import { StartProblem } from './start-problem.ts'

const DEVICE_GRANT = 'urn:ietf:params:oauth:grant-type:device_code'
const webGrants = ['authorization_code', 'refresh_token']

/** The seed version of a data folder; incremented with every change that existing folders need. */
const VERSION = 3
/** The console's address in version 1, whose marker only said when the folder was seeded. */
const REDIRECT_URI_OF_VERSION_1 = 'http://localhost:3000/callback'

interface IdentityProvider {
  /** The main module of its command. */
  cli: string
  cwd: string
  env: Record<string, string>
}

/**
 * Seeds a new data folder with the demo account and the clients, and updates an older one with what has changed about them,
 * both through the identity provider's own command. Each step happens once per folder: later changes by users stay. Safe to
 * repeat after an interrupted start.
 *
 * Throws StartProblem if the identity provider refuses.
 */
export async function bringSeedIntoLine({
  dataFolder,
  secrets,
  baseUrl,
  ...idp
}: IdentityProvider & { dataFolder: string; secrets: Secrets; baseUrl: string }): Promise<void> {
  const marker = join(dataFolder, 'seeded')
  const version = readVersion(marker)
  if (version !== undefined && version >= VERSION) return
  const docs = describeDocsClient(baseUrl)
  const wanted =
    version === undefined
      ? describeSeed(secrets, docs)
      : { clients: [...(version < 2 ? [await describeConsoleSinceVersion1(idp)] : []), docs] }
  await run(idp, ['apply', '-'], JSON.stringify(wanted))
  writeFileSync(marker, `${JSON.stringify({ version: VERSION, at: new Date() })}\n`)
}

/** Undefined for a folder that has not been seeded. */
function readVersion(marker: string): number | undefined {
  if (!existsSync(marker)) return undefined
  const [, version = '1'] = /"version":(\d+)/.exec(readFileSync(marker, 'utf8')) ?? []
  return Number(version)
}

/** Runs a command of the identity provider and returns its output. */
async function run({ cli, cwd, env }: IdentityProvider, words: string[], stdin = ''): Promise<string> {
  const child = spawn(process.execPath, [cli, ...words], { cwd, env, stdio: ['pipe', 'pipe', 'pipe'] })
  child.stdin.on('error', () => {}) // it ended without reading, and says why on stderr
  child.stdin.end(stdin)
  const [printed, output, [code, signal]] = await Promise.all([
    child.stdout.toArray(),
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
  return Buffer.concat(printed as Buffer[]).toString('utf8')
}

const ordinary = { postLogoutRedirectUris: [], scopes: '*', isFirstParty: true }

/** No device flow: it asks users to sign in again before they manage keys, which a device cannot do (D6). */
const consoleClient = {
  ...ordinary,
  id: clients.console.id,
  name: clients.console.name,
  kind: 'public',
  grants: webGrants,
  redirectUris: [clients.console.redirectUri],
  postLogoutRedirectUris: [clients.console.postLogoutRedirectUri],
}

/**
 * The client for signing in at /docs. It uses the API's current address, since the port of a web page has to match exactly
 * (D110).
 */
const describeDocsClient = (baseUrl: string) => ({
  ...ordinary,
  id: clients.docs.id,
  name: clients.docs.name,
  kind: 'public',
  grants: webGrants,
  redirectUris: [`${baseUrl}${clients.docs.redirectPath}`],
})

function describeSeed(secrets: Secrets, docs: ReturnType<typeof describeDocsClient>) {
  const grants = [...webGrants, DEVICE_GRANT]
  return {
    users: [{ email: demoEmail, givenName: 'Demo', familyName: 'Account', password: secrets.demoPassword }],
    clients: [
      {
        ...ordinary,
        id: clients.cli.id,
        name: clients.cli.name,
        kind: 'public',
        grants,
        redirectUris: [clients.cli.redirectUri],
      },
      consoleClient,
      docs,
      {
        ...ordinary,
        id: clients.confidential.id,
        name: clients.confidential.name,
        kind: 'confidential',
        grants,
        secret: secrets.confidentialClientSecret,
        redirectUris: [clients.confidential.redirectUri],
      },
    ],
  }
}

const listedClients = z.array(
  z.object({
    id: z.string(),
    name: z.string(),
    kind: z.string(),
    grants: z.array(z.string()),
    scopes: z.array(z.string()).nullable(),
    redirectUris: z.array(z.string()),
    postLogoutRedirectUris: z.array(z.string()),
  }),
)

const withOne = (list: readonly string[], one: string): string[] => [...new Set([...list, one])]

/**
 * The console's client as stored in the folder, with the current address, and without the device flow (D6, D110). Of its
 * redirect URIs only our own previous one is removed: many programs use port 3000 by default, and since consent is no longer
 * asked for there, any of them could let itself in. URIs that users added stay.
 */
async function describeConsoleSinceVersion1(idp: IdentityProvider) {
  const listed = listedClients.parse(JSON.parse(await run(idp, ['client', 'list', '--json'])))
  const held = listed.find(({ id }) => id === clients.console.id)
  if (!held) return consoleClient
  const others = held.redirectUris.filter((uri) => uri !== REDIRECT_URI_OF_VERSION_1)
  return {
    ...held,
    scopes: held.scopes ?? '*',
    grants: held.grants.filter((grant) => grant !== DEVICE_GRANT),
    redirectUris: withOne(others, clients.console.redirectUri),
    postLogoutRedirectUris: withOne(held.postLogoutRedirectUris, clients.console.postLogoutRedirectUri),
  }
}
