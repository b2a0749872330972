import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { resolve } from 'node:path'
import { Browser } from '@platform/testkit/browser'
import { freePort } from '@platform/testkit/free-port'
import { signIn, type Tokens } from '@platform/testing/oauth-flow'
import type { Core } from './cores.ts'
import { startServer } from './server-process.ts'

const repository = resolve(import.meta.dirname, '..')
const person = { email: 'bench@example.com', password: randomBytes(18).toString('base64url') }
/** Public and first-party over https: it has nothing to show, and nothing stands between signing in and a code. */
export const client = { id: '0198c0de-0000-7000-8000-0000000000be', redirectUri: 'https://app.example.com/callback' }

/** Our identity provider, running, with a person and a client. */
export interface IdentityProvider {
  issuer: string
  origin: string
  pid: number
  /** Tokens of the person for the client, through the real pages; the person signs in at the first time. */
  newTokens(scopes: readonly string[]): Promise<Tokens>
  stop(): Promise<void>
}

/** Starts the identity provider on a database of its own. env: what both services are told. */
export async function startIdentityProvider(options: {
  core: Core
  databaseUrl: string
  audience: string
  env: Record<string, string>
}): Promise<IdentityProvider> {
  const port = await freePort()
  const issuer = `http://localhost:${port}`
  const env = {
    ...options.env,
    PUBLIC_URL: issuer,
    PORT: String(port),
    DATABASE_URL: options.databaseUrl,
    AUDIENCES: options.audience,
  }
  await seed(env)
  const origin = `http://127.0.0.1:${port}`
  const { pid, stop } = await startServer({
    name: 'The identity provider',
    core: options.core,
    script: 'services/idp/src/main.ts',
    cwd: repository,
    env,
    readyUrl: `${origin}/.well-known/openid-configuration`,
  })
  const browser = new Browser()
  return {
    issuer,
    origin,
    pid,
    newTokens: (scopes) =>
      signIn(browser, { idpUrl: issuer, clientId: client.id, redirectUri: client.redirectUri, scopes }, person),
    stop,
  }
}

/** Makes the person and the client by the identity provider's own command, as an operator does. */
async function seed(env: Record<string, string>): Promise<void> {
  const child = spawn(process.execPath, ['services/idp/src/cli.ts', 'apply', '-'], {
    cwd: repository,
    env,
    stdio: ['pipe', 'ignore', 'pipe'],
  })
  child.stdin.end(
    JSON.stringify({
      users: [{ ...person, givenName: 'Bench', familyName: 'Mark', emailVerified: true }],
      clients: [
        {
          id: client.id,
          name: 'Benchmarks',
          kind: 'public',
          redirectUris: [client.redirectUri],
          grants: ['authorization_code', 'refresh_token'],
          scopes: '*',
          isFirstParty: true,
        },
      ],
    }),
  )
  const [words, [code]] = await Promise.all([
    child.stderr.toArray(),
    once(child, 'exit') as Promise<[number | null, string | null]>,
  ])
  if (code !== 0)
    throw new Error(`The identity provider could not be seeded: ${Buffer.concat(words as Buffer[]).toString('utf8')}`)
}
