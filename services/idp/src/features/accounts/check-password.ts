import type { Deps } from '../../deps.ts'
import type { Source } from '../../site/source.ts'
import { admitAttempt, attemptKey, forgetAttempts, takeBackAttempt } from '../attempts/attempts.ts'
import { recordRefusal } from '../attempts/record-refusal.ts'
import { nonceOfKnownBrowser, readKnownBrowsers } from '../known-browsers/known-browser.ts'
import { findUserByEmail } from './accounts.ts'
import type { HashLane } from './passwords.ts'

/** What came of an email address and a password. */
export type SignIn =
  /** passwordHash: what the password was held against. */
  | { kind: 'proven'; userId: string; passwordHash: string }
  | { kind: 'refused' }
  | { kind: 'suspended' }
  /** waitSeconds: until another attempt is looked at. */
  | { kind: 'paused'; waitSeconds: number }

/**
 * Guesses from one network at one account are slowed down hardest; a network or an account by itself only mildly, so that
 * neither a shared address nor an attacker elsewhere keeps anyone out for long.
 */
const pairBackOff = { free: 5, pauseMaxSeconds: 900 }
const networkBackOff = { free: 50, pauseMaxSeconds: 60 }
const accountBackOff = { free: 30, pauseMaxSeconds: 60 }
/** A copied cookie of a known browser gives its holder no more guesses than another network would. */
const browserBackOff = pairBackOff

export interface PasswordAttempt {
  email: string
  password: string
  /** The network the attempt counts for, and what it is recorded with. */
  source: Source
  /** The cookie of browsers that signed in before, as it came. */
  knownBrowser: string | undefined
  /** Whoever tries is signed in already, and confirms that it is them. */
  isSignedIn: boolean
}

/**
 * Checks an email address and a password. Whether the user exists shows neither in the answer nor in the time it takes;
 * that an account is suspended is told only to who knows its password.
 *
 * Attempts of a browser that signed in to the account before are counted by themselves, so guesses that strangers make
 * elsewhere never hold it up. During its own pause it is a stranger like them (decision 16). It waits for its hash in the first
 * lane, as does whoever is signed in.
 *
 * Wrong passwords of an account that exists are recorded (recordRefusal). Throws Unavailable when too many wait for a hash.
 */
export async function checkPassword(
  deps: Deps,
  { email, password, source, knownBrowser, isSignedIn }: PasswordAttempt,
): Promise<SignIn> {
  const account = email.trim().normalize('NFC').toLowerCase()
  const known = readKnownBrowsers(deps, knownBrowser)
  // Before anything is looked up: where all wait, a stranger's attempt costs no more than this.
  deps.passwords.requireRoom(isSignedIn || known.length > 0 ? 'first' : 'ordinary')
  // Looked up first for any browser that is known to some account: which one it is known to does not show in the time.
  const owner = known.length > 0 ? await findUserByEmail(deps, email) : undefined
  const nonce = nonceOfKnownBrowser(known, owner)
  const byBrowser = nonce === undefined ? undefined : attemptKey('sign-in', 'browser', nonce)
  const network = attemptKey('sign-in', 'network', source.address)
  const byAccount = attemptKey('sign-in', 'account', account)
  const asStranger = [
    { key: attemptKey('sign-in', 'pair', account, source.address), backOff: pairBackOff },
    { key: network, backOff: networkBackOff },
    { key: byAccount, backOff: accountBackOff },
  ]
  const asKnown = byBrowser !== undefined && [
    { key: byBrowser, backOff: browserBackOff },
    { key: network, backOff: networkBackOff },
  ]
  let hurdles = asKnown || asStranger
  let lane: HashLane = isSignedIn || asKnown ? 'first' : 'ordinary'
  deps.passwords.requireRoom(lane)
  let admission = await admitAttempt(deps, hurdles)
  if (asKnown && admission.kind === 'paused' && admission.by === byBrowser) {
    const own = admission.waitSeconds
    hurdles = asStranger
    lane = isSignedIn ? 'first' : 'ordinary'
    deps.passwords.requireRoom(lane)
    admission = await admitAttempt(deps, hurdles)
    if (admission.kind === 'paused') return { kind: 'paused', waitSeconds: Math.min(own, admission.waitSeconds) }
  }
  if (admission.kind === 'paused') return { kind: 'paused', waitSeconds: admission.waitSeconds }

  const user = known.length > 0 ? owner : await findUserByEmail(deps, email)
  const passwordHash = user?.passwordHash ?? undefined
  const isRight = await deps.passwords.verify(passwordHash, password, lane)
  if (!user) return { kind: 'refused' }
  if (!isRight || passwordHash === undefined) {
    const guesses = admission.counts[hurdles.findIndex(({ key }) => key === byBrowser || key === byAccount)] ?? 1
    recordRefusal(deps, { userId: user.id, action: 'user.password_refused', guesses, source })
    return { kind: 'refused' }
  }
  // Where this browser was not held against them, the counts of strangers stay.
  const own = hurdles.map(({ key }) => key).filter((key) => key !== network)
  await forgetAttempts(deps, byBrowser === undefined ? own : [...own, byBrowser])
  await takeBackAttempt(deps, network)
  return user.suspendedAt ? { kind: 'suspended' } : { kind: 'proven', userId: user.id, passwordHash }
}
