import { createHash, timingSafeEqual } from 'node:crypto'
import type { Mailer } from '@platform/mail/mailer'
import { recordAudit } from '@platform/service/audit'
import { and, eq, gt, isNotNull, isNull, lt, sql } from 'drizzle-orm'
import { formatCrockford, randomCrockford, readCrockford } from '../../crockford.ts'
import type { Deps } from '../../deps.ts'
import type { Source } from '../../site/source.ts'
import { findUserByEmail, insertUser, type User } from '../accounts/accounts.ts'
import { admitInWindow, attemptKey } from '../attempts/attempts.ts'
import { signUps } from './table.ts'

const HOUR_MS = 3_600_000
const LETTERS_IN_HOUR = 5
const ASKED_BY_NETWORK_MAX = 30
const CODE_MS = 10 * 60_000
/** How long names and a way to sign in may take after the code was typed. */
const PROVEN_MS = 30 * 60_000
const GUESSES_MAX = 5
/** 40 random bits, as those of a device. */
const CODE_LENGTH = 8

const hash = (text: string): Buffer => createHash('sha256').update(text).digest()
/** Bound to the browser, so that one code of two sign-ups has two hashes. */
const hashCode = (browser: string, code: string): Buffer => hash(`${browser}\n${code}`)

/** The code of a letter as people type it; undefined if it cannot be one. */
export const readCode = (text: string): string | undefined => readCrockford(text, CODE_LENGTH)
export const formatCode = formatCrockford

interface Start {
  /** As readMailAddress reads it. */
  email: string
  /** The browser's cookie from before a session: the code counts there alone. */
  browser: string
  returnTo: string
  source: Source
}

/** What both letters say of who asked. A User-Agent can be anything, and mail programs turn names with dots into links. */
const whoAsked = ({ browser, address }: Source): string =>
  `Browser: ${browser.replaceAll('.', ' ')}\nAddress: ${address}`

const codeLetter = (host: string, { email, source }: Start, code: string, link: string): string => `Hello,

somebody, hopefully you, began to create an account for ${email} at ${host}. Type this code where you began:

${formatCode(code)}

Or open this page in the same browser:

${link}

The code works for 10 minutes. It was asked for from:

${whoAsked(source)}

If you began nothing, do nothing, and give the code to nobody: there will be no account.
`

const accountLetter = (host: string, { email, source }: Start, link: string): string => `Hello,

somebody, hopefully you, tried to create an account for ${email} at ${host}. There is one already. Sign in here:

${link}

That page also helps if you have forgotten the password. It was tried from:

${whoAsked(source)}

If it was not you, there is nothing to do: nothing has changed.
`

/** Mails the code, or tells the owner of an account that they have one. Nothing to the owner of a suspended account. */
async function mailCode(deps: Deps, mailer: Mailer, start: Start, code: string): Promise<void> {
  const { accountUrl } = deps
  const byAddress = attemptKey('sign-up', 'address', start.email)
  const letters = await admitInWindow(deps, byAddress, { max: LETTERS_IN_HOUR, windowMs: HOUR_MS })
  if (letters.kind === 'paused') return
  const user = await findUserByEmail(deps, start.email)
  if (user?.suspendedAt) return
  const host = new URL(accountUrl).host
  await mailer.send(
    user
      ? {
          to: user.email,
          subject: 'You have an account already',
          text: accountLetter(host, start, `${accountUrl}/sign-in`),
        }
      : {
          to: start.email,
          subject: 'Your code',
          text: codeLetter(host, start, code, `${accountUrl}/sign-up/code?code=${formatCode(code)}`),
        },
  )
}

/**
 * Begins to create an account: the browser waits for a code, and a letter goes out. A second start in the same browser replaces
 * the first. What depends on whether the address has an account happens after the answer, so neither words nor timing tell. Returns
 * `paused` only for a network that asks too often.
 *
 * An address gets at most five letters in an hour. That bounds letters and not guesses, since each start makes another code:
 * guesses are bounded by the 40 bits of a code and the five tries that each has.
 */
export async function startSignUp(deps: Deps, mailer: Mailer, start: Start): ReturnType<typeof admitInWindow> {
  const { db, now, afterAnswer } = deps
  const { email, browser, returnTo, source } = start
  const byNetwork = attemptKey('sign-up', 'network', source.address)
  const admission = await admitInWindow(deps, byNetwork, { max: ASKED_BY_NETWORK_MAX, windowMs: HOUR_MS })
  if (admission.kind === 'paused') return admission
  const code = randomCrockford(CODE_LENGTH)
  const row = {
    email,
    codeHash: hashCode(browser, code),
    guesses: 0,
    returnTo,
    expiresAt: new Date(now().getTime() + CODE_MS),
    provenAt: null,
  }
  await db
    .insert(signUps)
    .values({ browserHash: hash(browser), ...row })
    .onConflictDoUpdate({ target: signUps.browserHash, set: row })
  afterAnswer.run('mail a code to sign up', () => mailCode(deps, mailer, start, code))
  return admission
}

/** A sign-up of this browser. */
export interface StartedSignUp {
  email: string
  /** As it was stored; read it by readReturnTo. */
  returnTo: string
  /** `typing`: waits for the code. `over`: it cannot be typed any more. `proven`: waits for names and a way to sign in. */
  state: 'typing' | 'over' | 'proven'
}

/** The sign-up that was begun in this browser and is not over for long. Changes nothing. */
export async function findSignUp(
  { db, now }: Pick<Deps, 'db' | 'now'>,
  browser: string | undefined,
): Promise<StartedSignUp | undefined> {
  if (browser === undefined) return undefined
  const [row] = await db
    .select({
      email: signUps.email,
      returnTo: signUps.returnTo,
      guesses: signUps.guesses,
      expiresAt: signUps.expiresAt,
      provenAt: signUps.provenAt,
    })
    .from(signUps)
    .where(eq(signUps.browserHash, hash(browser)))
  if (!row) return undefined
  const { email, returnTo, guesses, expiresAt, provenAt } = row
  if (expiresAt <= now()) return { email, returnTo, state: 'over' }
  if (provenAt !== null) return { email, returnTo, state: 'proven' }
  return { email, returnTo, state: guesses < GUESSES_MAX ? 'typing' : 'over' }
}

/**
 * Takes a code in the browser that asked for it. Each try counts before it is compared: five, and then the code is over. A right
 * one works once.
 */
export async function takeCode(
  { db, now }: Pick<Deps, 'db' | 'now'>,
  browser: string,
  code: string | undefined,
): Promise<'proven' | 'wrong' | 'over'> {
  const time = now()
  const waits = and(eq(signUps.browserHash, hash(browser)), isNull(signUps.provenAt), gt(signUps.expiresAt, time))
  const [guessed] = await db
    .update(signUps)
    .set({ guesses: sql`${signUps.guesses} + 1` })
    .where(and(waits, lt(signUps.guesses, GUESSES_MAX)))
    .returning({ codeHash: signUps.codeHash, guesses: signUps.guesses })
  if (!guessed) return 'over'
  const given = hashCode(browser, code ?? '')
  if (!timingSafeEqual(guessed.codeHash, given)) return guessed.guesses < GUESSES_MAX ? 'wrong' : 'over'
  const proven = await db
    .update(signUps)
    .set({ provenAt: time, expiresAt: new Date(time.getTime() + PROVEN_MS) })
    .where(and(waits, eq(signUps.codeHash, given)))
    .returning({ email: signUps.email })
  return proven.length > 0 ? 'proven' : 'over'
}

interface NewAccount {
  givenName: string
  familyName: string | null
  /** Null if the account begins with a passkey. */
  passwordHash: string | null
  source: Source
}

type Finished = { kind: 'made'; user: User } | { kind: 'taken' } | { kind: 'over' }

/**
 * Makes the account of a sign-up whose code was typed in this browser, with its audit row; the address counts as proven (D114).
 * Of several concurrent calls for an address one makes it. `taken`: there is an account by now. `over`: this address is not
 * proven here.
 */
export async function finishSignUp(
  { db, now }: Pick<Deps, 'db' | 'now'>,
  { browser, email }: { browser: string; email: string },
  { givenName, familyName, passwordHash, source }: NewAccount,
): Promise<Finished> {
  const time = now()
  return db.transaction(async (tx): Promise<Finished> => {
    const [proven] = await tx
      .delete(signUps)
      .where(
        and(
          eq(signUps.browserHash, hash(browser)),
          eq(signUps.email, email),
          isNotNull(signUps.provenAt),
          gt(signUps.expiresAt, time),
        ),
      )
      .returning({ email: signUps.email })
    if (!proven) return { kind: 'over' }
    const user = await insertUser(tx, time, { email: proven.email, passwordHash, givenName, familyName }, 'system')
    if (!user) return { kind: 'taken' }
    await recordAudit(tx, time, {
      actor: `user:${user.id}`,
      action: 'user.signed_up',
      subject: `user:${user.id}`,
      details: { way: passwordHash === null ? 'passkey' : 'password', ...source },
    })
    return { kind: 'made', user }
  })
}
