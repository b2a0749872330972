import { z } from 'zod'
import { cookieBeforeSession } from '../../site/csrf.ts'
import { redirect, redirectToSignIn } from '../../site/navigation.ts'
import { type FormCall, page, textField } from '../../site/page.ts'
import { readReturnTo, type ReturnTo } from '../../site/return-to.ts'
import { answeredRequestOf } from '../authorize/waiting-client.ts'
import { findPasskeyUser } from '../passkeys/passkeys.ts'
import { startSession } from '../sessions/sessions.ts'
import { answerSignIn, signInPurpose, staysField, SUSPENDED } from './form.ts'

const REFUSED =
  'This passkey did not sign you in. It may have been removed from your account, or the page was open for too long. Try again, or use your password.'

const usedPasskey = z.object({ credential: textField, stay: staysField })

/** Signs in with the passkey assertion that the browser's script sent. It counts as both factors. */
async function signInByPasskey(call: FormCall<'none', typeof usedPasskey, ReturnTo>): Promise<Response> {
  const { c, deps, target: returnTo, form } = call
  const passkeyUser = await findPasskeyUser(
    deps,
    { purpose: 'passkey-sign-in', cookie: cookieBeforeSession(c, deps) },
    form.credential,
  )
  const again = (problem: string, status: 401 | 403) =>
    answerSignIn(call, { email: '', staysSignedIn: form.stay, problem, status })
  if (!passkeyUser) return again(REFUSED, 401)
  const { userId, amr, proof } = passkeyUser
  const started = await startSession(c, deps, {
    userId,
    proof,
    amr,
    ways: ['passkey'],
    answeredRequest: answeredRequestOf(returnTo),
    staysSignedIn: form.stay,
  })
  if (started === 'started') return redirect(c, returnTo.url)
  return started === 'suspended' ? again(SUSPENDED, 403) : again(REFUSED, 401)
}

export const passkeySignInPage = page({
  path: '/sign-in/passkey',
  session: 'none',
  find: ({ deps, field }) => readReturnTo(deps, field('returnTo')),
  // Redirects to the page with the form.
  show: ({ c, deps }) => redirectToSignIn(c, deps, readReturnTo(deps, undefined)),
  form: usedPasskey,
  csrf: ({ target }) => signInPurpose(target),
  submit: signInByPasskey,
})
