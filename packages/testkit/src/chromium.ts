import { accessSync, constants } from 'node:fs'
import { delimiter, join } from 'node:path'
import { env } from 'node:process'
import { unless } from '@platform/test-runner/task-meta'
import { type Browser, type BrowserContext, type CDPSession, chromium, type Page, type Request } from 'playwright-core'
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

/** The machine's own Chromium: a test run downloads nothing. */
const executablePath = (env['PATH'] ?? '')
  .split(delimiter)
  .flatMap((folder) => names.map((name) => join(folder, name)))
  .find((file) => isExecutable(file))

type ContextOptions = Parameters<Browser['newContext']>[0]

/** Opens a separate browser context with its own cookies, on a blank page. */
export type OpenPage = (options?: ContextOptions) => Promise<{ context: BrowserContext; page: Page }>

/**
 * A describe whose tests use a real browser. Without Chromium they are skipped; with CI set they fail instead, since CI relies on
 * them.
 */
export function describeInChromium(name: string, body: (open: OpenPage) => void): void {
  const isMissing = executablePath === undefined
  const obstacle = isMissing && !isCi ? `no ${names.join(' or ')} in the PATH` : undefined
  describe(`${name} (in Chromium)`, unless(obstacle), () => {
    let browser: Browser | undefined
    beforeAll(async () => {
      if (isMissing) throw new Error(`CI is set, and there is no ${names.join(' or ')} in the PATH`)
      browser = await chromium.launch({ executablePath, chromiumSandbox: false })
    })
    afterAll(() => browser?.close())
    body(async (options) => {
      const context = await (browser as Browser).newContext(options)
      // It measures nothing: on a busy machine a page with a large script takes ten seconds to stand.
      context.setDefaultTimeout(60_000)
      const page = await context.newPage()
      const unanswered = new Set<Request>()
      context.on('request', (request) => unanswered.add(request))
      context.on('requestfinished', (request) => unanswered.delete(request))
      context.on('requestfailed', (request) => unanswered.delete(request))
      // A failed click reports what it looked for, but not what the page showed, and a page that does not load, not what it waits for.
      onTestFailed(async () => {
        const waits = [...unanswered].map((request) => `\nno answer to ${request.method()} ${request.url()}`)
        console.error(`the page was ${page.url()}:\n${await page.content()}${waits.join('')}`)
      })
      return { context, page }
    })
  })
}

/** A virtual authenticator with a fingerprint reader in the page's browser (CDP WebAuthn). */
export interface VirtualAuthenticator {
  /** Whether it answers requests at once, or leaves them pending. */
  answerAtOnce(enabled: boolean): Promise<void>
  /** Whether the fingerprint matches from now on. */
  verifyUser(isVerified: boolean): Promise<void>
  credentials(): Promise<{ isResidentCredential: boolean; rpId?: string; signCount: number }[]>
}

/** isSecurityKey: a plugged-in key without a PIN or any other user verification, instead of the device's own authenticator. */
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
