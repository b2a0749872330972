import { BadRequest } from '@platform/errors/api-error'
import type { z } from 'zod'
import type { Deps } from '../../deps.ts'
import type { Ctx } from '../../http/app.ts'
import { redirect, redirectToSignIn } from '../../site/navigation.ts'
import { readFlow, type ReturnTo, returnToPage } from '../../site/return-to.ts'
import type { User } from '../accounts/accounts.ts'
import { isTooBusy } from '../accounts/passwords.ts'
import { answeredRequestOf } from '../authorize/waiting-client.ts'
import { checkedNewPassword } from '../password/new-password.ts'
import { startSession } from '../sessions/sessions.ts'
import type { NewAccountProblem, newAccountSchema } from './new-account-form.ts'

/**
 * Hashes the password that a form chose; null if a passkey comes in its place. Returns a problem if the password breaks the rules
 * or its repetition differs, and also if too many wait for a hash: then it sets Retry-After.
 */
export async function hashNewPassword(
  c: Ctx,
  deps: Pick<Deps, 'issuer' | 'passwords'>,
  form: z.output<typeof newAccountSchema>,
  owner: Parameters<typeof checkedNewPassword>[2],
): Promise<{ passwordHash: string | null; problem?: undefined } | { problem: NewAccountProblem }> {
  if (form.way === 'passkey') return { passwordHash: null }
  try {
    if (form.new !== form.again) throw new BadRequest('The password and its repetition are not the same')
    return { passwordHash: await deps.passwords.hash(await checkedNewPassword(deps, form.new, owner)) }
  } catch (error) {
    if (error instanceof BadRequest) return { problem: { text: `${error.message}.`, field: 'password', status: 400 } }
    if (!isTooBusy(error)) throw error
    c.header('retry-after', '5')
    return { problem: { text: `${error.message}.`, field: 'password', status: 503 } }
  }
}

/** Leads the owner of a new account on: if it has no password, to where a passkey is made, which leads to the same place. */
export const leadOn = (c: Ctx, deps: Deps, returnTo: ReturnTo, { hasPassword }: { hasPassword: boolean }): Response =>
  redirect(c, hasPassword ? returnTo.url : returnToPage(deps, 'passkeys/add', readFlow(deps, returnTo.url)).url)

/** Signs the owner of a new account in, in the browser that proved the address just now, and leads on. */
export async function signInNewAccount(c: Ctx, deps: Deps, user: User, returnTo: ReturnTo): Promise<Response> {
  const started = await startSession(c, deps, {
    userId: user.id,
    // The letter was proven in the transaction that made the account.
    proof: async () => true,
    amr: user.passwordHash === null ? 'otp' : 'pwd',
    // What was recorded already, and no news to the owner.
    ways: undefined,
    answeredRequest: answeredRequestOf(returnTo),
    staysSignedIn: true,
  })
  if (started !== 'started') return redirectToSignIn(c, deps, returnTo)
  return leadOn(c, deps, returnTo, { hasPassword: user.passwordHash !== null })
}
