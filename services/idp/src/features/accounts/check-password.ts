import type { Deps } from '../../deps.ts'
import type { Source } from '../../site/source.ts'
import { admitAttempt, attemptKey, forgetAttempts, takeBackAttempt } from '../attempts/attempts.ts'
import { recordRefusal } from '../attempts/record-refusal.ts'
import { nonceOfKnownBrowser, readKnownBrowsers } from '../known-browsers/known-browser.ts'
import { findUserByEmail, storedEmail } from './accounts.ts'
import type { HashLane } from './passwords.ts'

/** The result of checking an email address and a password. */
export type SignIn =
  /** passwordHash: the hash that the password was checked against. */
  | { kind: 'proven'; userId: string; passwordHash: string }
  | { kind: 'refused' }
  | { kind: 'suspended' }
  /** waitSeconds: until the next attempt is accepted. */
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
  /** The network that the attempt counts against; recorded with it. */
  source: Source
  /** The raw cookie of browsers that signed in before. */
  knownBrowser: string | undefined
  /** The user is already signed in and confirms their identity. */
  isSignedIn: boolean
}

/**
 * Checks an email address and a password. Neither the answer nor its timing reveals whether the user exists; only a caller
 * who knows the password learns that the account is suspended.
 *
 * Attempts from a browser that signed in to the account before are counted separately, so guesses by strangers elsewhere
 * never hold it up. During its own pause it counts as a stranger (decision 16). It waits for its hash in the first lane, as
 * do users who are signed in.
 *
 * Wrong passwords of an existing account are recorded (recordRefusal). Throws Unavailable if too many wait for a hash.
 */
export async function checkPassword(
  deps: Deps,
  { email, password, source, knownBrowser, isSignedIn }: PasswordAttempt,
): Promise<SignIn> {
  const account = storedEmail(email).toLowerCase()
  const known = readKnownBrowsers(deps, knownBrowser)
  // Before any lookup: if the queue is full, a stranger's attempt costs no more than this.
  deps.passwords.requireRoom(isSignedIn || known.length > 0 ? 'first' : 'ordinary')
  // Looked up early for any browser known to some account, so the timing does not reveal which account that is.
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
  // If the attempt did not count on the counters of strangers, those stay as they are.
  const own = hurdles.map(({ key }) => key).filter((key) => key !== network)
  await forgetAttempts(deps, byBrowser === undefined ? own : [...own, byBrowser])
  await takeBackAttempt(deps, network)
  return user.suspendedAt ? { kind: 'suspended' } : { kind: 'proven', userId: user.id, passwordHash }
}
