import type { Deps } from '../../deps.ts'
import { findUserByEmail } from '../accounts/accounts.ts'
import { admitAttempt, attemptKey, forgetAttempts, takeBackAttempt } from '../attempts/attempts.ts'

/** What came of an email address and a password. */
export type SignIn =
  /** passwordHash: what the password was held against. */
  | { kind: 'proven'; userId: string; passwordHash: string }
  | { kind: 'refused' }
  | { kind: 'suspended' }
  | { kind: 'paused' }

/**
 * Guesses from one network at one account are slowed down hardest; a network or an account by itself only mildly, so that
 * neither a shared address nor an attacker elsewhere keeps anyone out for long.
 */
const pairBackOff = { free: 5, pauseMaxSeconds: 900 }
const networkBackOff = { free: 50, pauseMaxSeconds: 60 }
const accountBackOff = { free: 30, pauseMaxSeconds: 60 }

/**
 * Checks an email address and a password. Whether the user exists shows neither in the answer nor in the time it takes;
 * that an account is suspended is told only to who knows its password.
 *
 * address: the network the attempt counts for. Throws Unavailable when too many wait for a hash.
 */
export async function checkPassword(
  deps: Deps,
  { email, password, address }: { email: string; password: string; address: string },
): Promise<SignIn> {
  deps.passwords.requireRoom()
  const account = email.trim().normalize('NFC').toLowerCase()
  const pair = attemptKey('sign-in', 'pair', account, address)
  const network = attemptKey('sign-in', 'network', address)
  const byAccount = attemptKey('sign-in', 'account', account)
  const isAdmitted = await admitAttempt(deps, [
    { key: pair, backOff: pairBackOff },
    { key: network, backOff: networkBackOff },
    { key: byAccount, backOff: accountBackOff },
  ])
  if (!isAdmitted) return { kind: 'paused' }

  const user = await findUserByEmail(deps, email)
  const passwordHash = user?.passwordHash ?? undefined
  const isRight = await deps.passwords.verify(passwordHash, password)
  if (!isRight || !user || passwordHash === undefined) return { kind: 'refused' }
  await forgetAttempts(deps, [pair, byAccount])
  await takeBackAttempt(deps, network)
  return user.suspendedAt ? { kind: 'suspended' } : { kind: 'proven', userId: user.id, passwordHash }
}
