import { writeFile } from 'node:fs/promises'
import { type Person, startPlatform, type TestPlatform } from '@platform/testing/platform'
import { approveDevice } from '@platform/testkit/approve-device'
import { commandLineClient } from '../../../services/idp/src/commands/init.ts'
import { createClient } from '../../../services/idp/src/features/clients/clients.ts'
import type { Profile } from '../src/profiles.ts'
import { type Ended, type Given, newTerminal, type Terminal } from './terminal.ts'

/** A platform with the command line's client, which every installation has. */
export async function startPlatformForSignIns(
  options: Parameters<typeof startPlatform>[0] = {},
): Promise<TestPlatform> {
  const server = await startPlatform(options)
  await createClient(server.idp, commandLineClient)
  return server
}

/** What `login` shows for the browser. */
interface ShownCode {
  completeUrl: string
  userCode: string
}

/**
 * Runs `login` in a terminal. decide: what the person does with the code; the platform is asked for the tokens only afterwards, so
 * that nobody waits. at: answers that take the place of the platform's, by address.
 */
export async function loginInTerminal(
  terminal: Terminal,
  line: string,
  decide: (code: ShownCode) => Promise<void> | void,
  { at = {}, ...given }: Given & { at?: Record<string, () => Response> } = {},
): Promise<Ended> {
  const { server } = terminal
  let shown = ''
  let decision: Promise<void> | undefined
  return terminal.run(line, {
    ...given,
    isTerminal: true,
    env: { NO_COLOR: '1', ...given.env },
    onStderr: (text) => (shown += text),
    async fetch(input, init) {
      if (input === `${server.idpUrl}/oauth2/token`) {
        const [, completeUrl = '', userCode = ''] = /^Open (\S+)\nand approve the code (\S+)\n/.exec(shown) ?? []
        await (decision ??= Promise.resolve(decide({ completeUrl, userCode })))
      }
      return at[input as string]?.() ?? fetch(input, init)
    },
  })
}

/** Signs a person in on a machine, so that the sign-in is renewed. */
export async function signIn(terminal: Terminal, person: Person, line = 'login --no-open'): Promise<void> {
  const { code, stderr } = await loginInTerminal(terminal, line, (shown) => approveDevice(shown, person))
  if (code !== 0) throw new Error(`Nobody was signed in: ${stderr}`)
}

/** A machine on which a person has signed in, as people do. */
export async function terminalWithSignIn(server: TestPlatform, person: Person): Promise<Terminal> {
  const terminal = await newTerminal(server)
  await signIn(terminal, person)
  return terminal
}

/** What credentials.json holds on a machine where somebody has begun to sign in. */
export interface StoredProfiles {
  profiles: { default: Profile }
}

/** The stored token of the profile `default` ends, here alone. */
export async function endStoredToken(terminal: Terminal): Promise<void> {
  const credentials = (await terminal.readCredentials()) as StoredProfiles
  const { signIn: stored } = credentials.profiles.default
  if (stored) stored.expiresAt = 0
  await writeFile(terminal.credentials, JSON.stringify(credentials))
}

/** How often the sign-in of the profile `default` has been renewed: a refresh token names its generation. */
export async function generationOf(terminal: Terminal): Promise<number> {
  const { profiles } = (await terminal.readCredentials()) as StoredProfiles
  return Number(profiles.default.signIn?.refreshToken?.split('.')[3])
}
