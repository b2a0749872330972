import { createHash, randomBytes } from 'node:crypto'
import { z } from 'zod'
import type { Deps } from '../../deps.ts'
import type { Ctx } from '../../http/app.ts'
import { readCookie, setCookie } from '../../site/cookies.ts'
import { readTicket, writeTicket } from '../../site/ticket.ts'

/** Longer than any session lasts, so browsers that return regularly stay known. */
const LIFETIME_MS = 180 * 86_400_000
/** The number of accounts that one browser can be known to; the least recently signed in is dropped first. */
const ACCOUNTS_MAX = 5
/** Occurs in no ticket, and is allowed in cookies. */
const SEPARATOR = '~'

/** The ticket belongs to no form and no other cookie: it is bound only to the browser that holds it. */
const ticketOf = { purpose: 'known-browser', cookie: '' }
const shape = z.object({ userId: z.string(), nonce: z.string(), stamp: z.string() })

/** A browser that signed in to an account before, as its cookie proves (decision 16). */
type KnownBrowser = z.output<typeof shape>

/** The columns that a known browser's ticket is bound to. */
interface Account {
  id: string
  passwordHash: string | null
  updatedAt: Date
}

/**
 * Changes with the password, and with every other change of the account's row: signing out everywhere updates `updated_at`
 * for this. So browsers are forgotten without a list of them.
 */
const stampOf = ({ passwordHash, updatedAt }: Account): string =>
  createHash('sha256')
    .update(`${passwordHash ?? ''}\n${updatedAt.toISOString()}`)
    .digest('base64url')

const ticketsIn = (cookie: string | undefined): string[] => (cookie ?? '').split(SEPARATOR, ACCOUNTS_MAX)

/** The known browsers that the cookie proves, one per account; skips tickets that are forged, expired or of another service. */
export const readKnownBrowsers = (deps: Pick<Deps, 'sealer' | 'now'>, cookie: string | undefined): KnownBrowser[] =>
  ticketsIn(cookie).flatMap((ticket) => readTicket(deps, ticketOf, shape, ticket) ?? [])

/**
 * The name under which this browser's attempts at the account are counted, 128 random bits; undefined if the browser has not
 * signed in to it since the account or its password last changed.
 */
export const nonceOfKnownBrowser = (known: readonly KnownBrowser[], account: Account | undefined): string | undefined =>
  account && known.find(({ userId, stamp }) => userId === account.id && stamp === stampOf(account))?.nonce

/** Marks the browser as known to this account; accounts that it was known to before stay. */
export function rememberBrowser(c: Ctx, deps: Pick<Deps, 'sealer' | 'now' | 'issuer'>, account: Account): void {
  const nonce = randomBytes(16).toString('base64url')
  const known: KnownBrowser = { userId: account.id, nonce, stamp: stampOf(account) }
  const others = ticketsIn(readCookie(c, deps, 'known')).filter((ticket) => {
    const other = readTicket(deps, ticketOf, shape, ticket)
    return other && other.userId !== account.id
  })
  const tickets = [writeTicket(deps, ticketOf, known, LIFETIME_MS), ...others].slice(0, ACCOUNTS_MAX)
  setCookie(c, deps, 'known', tickets.join(SEPARATOR), LIFETIME_MS / 1_000)
}
