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
const VERSION = 4
/** What the console's client had in version 1, whose marker only said when the folder was seeded. */
const CONSOLE_URL_OF_VERSION_1 = 'http://localhost:3000'
/** What it had in versions 2 and 3, which had no other. */
const CONSOLE_URL_OF_VERSION_3 = 'http://localhost:4003'

interface IdentityProvider {
  /** The main module of its command. */
  cli: string
  cwd: string
  env: Record<string, string>
}

/** The origins that the clients' redirect URIs stand below. */
interface Origins {
  consoleUrl: string
  /** Of the API. */
  baseUrl: string
}

/** What a data folder says about its seed. Folders before version 4 say no origins. */
type Marker = { version: number } & Partial<Origins>

/**
 * Seeds a new data folder with the demo account and the clients, and updates an older one with what has changed about them,
 * both through the identity provider's own command. Each step happens once per folder: later changes by users stay. With other
 * ports than at the last start, the redirect URIs of the console and the API reference move there. Does nothing for a folder that
 * is up to date. Safe to repeat after an interrupted start.
 *
 * Throws StartProblem if the identity provider refuses.
 */
export async function bringSeedIntoLine({
  dataFolder,
  secrets,
  consoleUrl,
  baseUrl,
  ...idp
}: IdentityProvider & Origins & { dataFolder: string; secrets: Secrets }): Promise<void> {
  const file = join(dataFolder, 'seeded')
  const marker = readMarker(file)
  const origins = { consoleUrl, baseUrl }
  if (marker && marker.version >= VERSION && marker.consoleUrl === consoleUrl && marker.baseUrl === baseUrl) return
  const wanted = marker ? await describeChanges(idp, marker, origins) : describeSeed(secrets, origins)
  await run(idp, ['apply', '-'], JSON.stringify(wanted))
  const version = Math.max(VERSION, marker?.version ?? 0)
  writeFileSync(file, `${JSON.stringify({ version, ...origins, at: new Date() })}\n`)
}

const writtenMarker = z.object({
  version: z.number(),
  consoleUrl: z.string().optional(),
  baseUrl: z.string().optional(),
})

/** Undefined for a folder that has not been seeded. */
function readMarker(file: string): Marker | undefined {
  if (!existsSync(file)) return undefined
  try {
    return writtenMarker.parse(JSON.parse(readFileSync(file, 'utf8')))
  } catch {
    return { version: 1 }
  }
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

const consoleUris = (consoleUrl: string) => ({
  redirectUri: `${consoleUrl}${clients.console.redirectPath}`,
  postLogoutRedirectUri: `${consoleUrl}${clients.console.postLogoutPath}`,
})

/**
 * The console's client, at its current address, since the port of a web page has to match exactly (D110). No device flow: it asks
 * users to sign in again before they manage keys, which a device cannot do (D6).
 */
function describeConsole(consoleUrl: string) {
  const { redirectUri, postLogoutRedirectUri } = consoleUris(consoleUrl)
  return {
    ...ordinary,
    id: clients.console.id,
    name: clients.console.name,
    kind: 'public',
    grants: webGrants,
    redirectUris: [redirectUri],
    postLogoutRedirectUris: [postLogoutRedirectUri],
  }
}

const docsUri = (baseUrl: string): string => `${baseUrl}${clients.docs.redirectPath}`

/** The client for signing in at /docs, at the API's current address. */
const describeDocs = (baseUrl: string) => ({
  ...ordinary,
  id: clients.docs.id,
  name: clients.docs.name,
  kind: 'public',
  grants: webGrants,
  redirectUris: [docsUri(baseUrl)],
})

function describeSeed(secrets: Secrets, { consoleUrl, baseUrl }: Origins) {
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
      describeConsole(consoleUrl),
      describeDocs(baseUrl),
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

type ListedClient = z.output<typeof listedClients>[number]

/** What has changed since the marker, with what users changed in the meantime. A client that they deleted stays deleted. */
async function describeChanges(idp: IdentityProvider, marker: Marker, { consoleUrl, baseUrl }: Origins) {
  const listed = listedClients.parse(JSON.parse(await run(idp, ['client', 'list', '--json'])))
  const held = (id: string) => listed.find((client) => client.id === id)
  const changed = [
    changeConsole(held(clients.console.id), marker, consoleUrl),
    changeDocs(held(clients.docs.id), marker, baseUrl),
  ]
  return { clients: changed.filter((client) => client !== undefined) }
}

/** The URIs with the current one, and without ours of before. Those that users added stay. */
const moved = (uris: readonly string[], isOfBefore: (uri: string) => boolean, current: string): string[] => [
  ...new Set([...uris.filter((uri) => !isOfBefore(uri)), current]),
]

/**
 * The console's client as stored in the folder, with the current address. Ours of before goes: any program of the machine may take
 * its port, and could let itself in, since no consent is asked for there (D110). Since version 2 it lacks the device flow (D6).
 */
function changeConsole(held: ListedClient | undefined, marker: Marker, consoleUrl: string) {
  const isOfVersion1 = marker.version < 2
  if (!held) return isOfVersion1 ? describeConsole(consoleUrl) : undefined
  const urlBefore = isOfVersion1 ? CONSOLE_URL_OF_VERSION_1 : (marker.consoleUrl ?? CONSOLE_URL_OF_VERSION_3)
  if (urlBefore === consoleUrl && !isOfVersion1) return undefined
  const [before, current] = [consoleUris(urlBefore), consoleUris(consoleUrl)]
  return {
    ...held,
    scopes: held.scopes ?? '*',
    grants: isOfVersion1 ? held.grants.filter((grant) => grant !== DEVICE_GRANT) : held.grants,
    redirectUris: moved(held.redirectUris, (uri) => uri === before.redirectUri, current.redirectUri),
    postLogoutRedirectUris: moved(
      held.postLogoutRedirectUris,
      // Version 1 gave it none.
      (uri) => !isOfVersion1 && uri === before.postLogoutRedirectUri,
      current.postLogoutRedirectUri,
    ),
  }
}

/** The reference's client, which came with version 3, in the same way. */
function changeDocs(held: ListedClient | undefined, marker: Marker, baseUrl: string) {
  if (marker.version < 3) return describeDocs(baseUrl)
  const uriBefore = marker.baseUrl && docsUri(marker.baseUrl)
  if (!held || uriBefore === docsUri(baseUrl)) return undefined
  // Version 3 did not say which port it had.
  const isOfBefore = (uri: string) =>
    uriBefore === undefined ? /^http:\/\/localhost:\d+\/docs$/.test(uri) : uri === uriBefore
  return {
    ...held,
    scopes: held.scopes ?? '*',
    redirectUris: moved(held.redirectUris, isOfBefore, docsUri(baseUrl)),
  }
}
