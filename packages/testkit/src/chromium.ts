import { accessSync, constants } from 'node:fs'
import { delimiter, join } from 'node:path'
import { env } from 'node:process'
import { type Browser, type BrowserContext, type CDPSession, chromium, type Page } from 'playwright-core'
import { afterAll, beforeAll, describe, onTestFailed } from 'vitest'
import { isCi } from './test-environment.ts'

const names = ['chromium', 'chromium-browser', 'google-chrome']

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK)
    return true
  } catch {
    return false // not there, or not for us
  }
}

/** The machine's own Chromium: nothing is downloaded for a test run. */
const executablePath = (env['PATH'] ?? '')
  .split(delimiter)
  .flatMap((folder) => names.map((name) => join(folder, name)))
  .find((file) => isExecutable(file))

type ContextOptions = Parameters<Browser['newContext']>[0]

/** Opens a browser of its own, with cookies of its own, on a page that goes nowhere yet. */
export type OpenPage = (options?: ContextOptions) => Promise<{ context: BrowserContext; page: Page }>

/**
 * A describe whose tests use a real browser. Where the machine has none they are skipped, and say so; with CI set they
 * fail instead, since there somebody counts on them.
 */
export function describeInChromium(name: string, body: (open: OpenPage) => void): void {
  const isMissing = executablePath === undefined
  const where = isMissing ? `needs ${names.join(' or ')} in the PATH` : 'in Chromium'
  describe.skipIf(isMissing && !isCi)(`${name} (${where})`, () => {
    let browser: Browser | undefined
    beforeAll(async () => {
      if (isMissing) throw new Error(`CI is set, and there is no ${names.join(' or ')} in the PATH`)
      browser = await chromium.launch({ executablePath, chromiumSandbox: false })
    })
    afterAll(() => browser?.close())
    body(async (options) => {
      const context = await (browser as Browser).newContext(options)
      context.setDefaultTimeout(10_000)
      const page = await context.newPage()
      // A click that found nothing says what it looked for, never what it saw.
      onTestFailed(async () => {
        console.error(`the page was ${page.url()}:\n${await page.content()}`)
      })
      return { context, page }
    })
  })
}

/** A virtual authenticator with a fingerprint reader in the page's browser (CDP WebAuthn). */
export interface VirtualAuthenticator {
  /** Whether it answers as soon as it is asked, or lets requests wait. */
  answerAtOnce(enabled: boolean): Promise<void>
  /** Whether the fingerprint is right from now on. */
  verifyUser(isVerified: boolean): Promise<void>
  credentials(): Promise<{ isResidentCredential: boolean; rpId?: string; signCount: number }[]>
}

/** isSecurityKey: a key to plug in, with neither a PIN nor anything else that verifies its user, in place of the device's own. */
export async function addVirtualAuthenticator(
  context: BrowserContext,
  page: Page,
  { isSecurityKey = false }: { isSecurityKey?: boolean } = {},
): Promise<VirtualAuthenticator> {
  const cdp: CDPSession = await context.newCDPSession(page)
  await cdp.send('WebAuthn.enable', { enableUI: false })
  const { authenticatorId } = await cdp.send('WebAuthn.addVirtualAuthenticator', {
    options: {
      protocol: 'ctap2',
      transport: isSecurityKey ? 'usb' : 'internal',
      hasResidentKey: true,
      hasUserVerification: !isSecurityKey,
      isUserVerified: !isSecurityKey,
      automaticPresenceSimulation: true,
    },
  })
  return {
    async answerAtOnce(enabled) {
      await cdp.send('WebAuthn.setAutomaticPresenceSimulation', { authenticatorId, enabled })
    },
    async verifyUser(isUserVerified) {
      await cdp.send('WebAuthn.setUserVerified', { authenticatorId, isUserVerified })
    },
    credentials: async () => (await cdp.send('WebAuthn.getCredentials', { authenticatorId })).credentials,
  }
}
