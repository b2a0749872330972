import { createHash, randomBytes } from 'node:crypto'
import { z } from 'zod'
import type { Deps } from '../../deps.ts'
import type { Ctx } from '../../http/app.ts'
import { readCookie, setCookie } from '../../site/cookies.ts'
import { readTicket, writeTicket } from '../../site/ticket.ts'

/** Longer than any session lasts, so whoever comes back regularly stays known. */
const LIFETIME_MS = 180 * 86_400_000
/** How many accounts one browser is known to; the one that signed in longest ago goes first. */
const ACCOUNTS_MAX = 5
/** Stands in no ticket and in no cookie's way. */
const SEPARATOR = '~'

/** The ticket is no form's and of no other cookie: the browser that holds it is all that it is bound to. */
const ticketOf = { purpose: 'known-browser', cookie: '' }
const shape = z.object({ userId: z.string(), nonce: z.string(), stamp: z.string() })

/** A browser that signed in to an account before, as its cookie proves (decision 16). */
type KnownBrowser = z.output<typeof shape>

/** The columns of an account that a known browser is bound to. */
interface Account {
  id: string
  passwordHash: string | null
  updatedAt: Date
}

/**
 * Changes with the password, and with everything else that changes the account's row: signing out everywhere moves its
 * `updated_at` for this. So browsers are forgotten without a list of them.
 */
const stampOf = ({ passwordHash, updatedAt }: Account): string =>
  createHash('sha256')
    .update(`${passwordHash ?? ''}\n${updatedAt.toISOString()}`)
    .digest('base64url')

const ticketsIn = (cookie: string | undefined): string[] => (cookie ?? '').split(SEPARATOR, ACCOUNTS_MAX)

/** What the cookie proves, by account; what is forged, expired or of another service is left out. */
export const readKnownBrowsers = (deps: Pick<Deps, 'sealer' | 'now'>, cookie: string | undefined): KnownBrowser[] =>
  ticketsIn(cookie).flatMap((ticket) => readTicket(deps, ticketOf, shape, ticket) ?? [])

/**
 * The name under which this browser's attempts at the account are counted, 128 random bits; undefined for a browser that
 * did not sign in to it since its password or anything else of it changed.
 */
export const nonceOfKnownBrowser = (known: readonly KnownBrowser[], account: Account | undefined): string | undefined =>
  account && known.find(({ userId, stamp }) => userId === account.id && stamp === stampOf(account))?.nonce

/** Lets the browser prove from now on that it signed in to this account, and still to the others that it could. */
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
