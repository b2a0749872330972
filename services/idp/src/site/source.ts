import type { Deps } from '../deps.ts'
import { addressOf, type Ctx, userAgentOf } from '../http/app.ts'
import { describeBrowser } from './describe-browser.ts'

/** Where a request comes from, as the audit log and mails name it. */
export interface Source {
  /** As rate limits count it. */
  address: string
  /** Such as `Firefox on Linux`; a guess. */
  browser: string
}

export const sourceOf = (c: Ctx, deps: Deps): Source => ({
  address: addressOf(c, deps),
  browser: describeBrowser(userAgentOf(c)),
})
