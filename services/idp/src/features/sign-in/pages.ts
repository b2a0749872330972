import { z } from 'zod'
import type { Deps } from '../../deps.ts'
import { readCookie } from '../../site/cookies.ts'
import { redirect } from '../../site/navigation.ts'
import { type FormCall, page, type PageCall, textField } from '../../site/page.ts'
import { asksForFreshness, readInvitationOf, readReturnTo, type ReturnTo } from '../../site/return-to.ts'
import { sourceOf } from '../../site/source.ts'
import { checkPassword } from '../accounts/check-password.ts'
import { isTooBusy } from '../accounts/passwords.ts'
import { tellPause } from '../attempts/tell-pause.ts'
import { findAuthenticator } from '../authenticator/authenticator.ts'
import { readAuthorizeParameters } from '../authorize/parameters.ts'
import { answeredRequestOf } from '../authorize/waiting-client.ts'
import { passwordProof, passwordStampOf } from '../sessions/proof.ts'
import { startSession } from '../sessions/sessions.ts'
import { answerSignIn, type Form, signInPurpose, staysField, SUSPENDED } from './form.ts'
import { passkeySignInPage } from './passkey.ts'
import { askForSecondFactor, secondFactorPages } from './second-factor.ts'

/**
 * Shows the form. A signed-in user is redirected, unless a page needs a recent sign-in, a client waits or an invitation does: a
 * request may demand another sign-in, and the pages of both offer another account.
 */
async function showSignIn(call: PageCall<'none', ReturnTo>): Promise<Response> {
  const { c, deps, target: returnTo, findSession } = call
  const mayStay =
    returnTo.kind === 'account' && !asksForFreshness(deps, returnTo) && readInvitationOf(returnTo) === undefined
  if (mayStay && (await findSession())) return redirect(c, returnTo.url)
  const hint = returnTo.kind === 'authorize' ? readAuthorizeParameters(returnTo.search).get('login_hint') : undefined
  return answerSignIn(call, { email: (hint ?? '').slice(0, 320) })
}

/** Ways to sign in that guesses by strangers do not hold up. Setting a new password by mail makes the browser known. */
const otherWays = ({ mailer }: Pick<Deps, 'mailer'>): string =>
  mailer
    ? 'A passkey signs you in at once, and after choosing a new password by mail you can use that at once.'
    : 'A passkey signs you in at once.'

const REFUSED = 'The email address or the password is not right.'

const credentials = z.object({ email: textField, password: textField, stay: staysField })

async function signIn(call: FormCall<'none', typeof credentials, ReturnTo>): Promise<Response> {
  const { c, deps, target: returnTo, form } = call
  const { email, password, stay: staysSignedIn } = form
  const again = (problem: string, status: NonNullable<Form['status']>) =>
    answerSignIn(call, { email, staysSignedIn, problem, status, isPasswordRefused: status === 401 })

  let checked
  try {
    checked = await checkPassword(deps, {
      email,
      password,
      source: sourceOf(c, deps),
      knownBrowser: readCookie(c, deps, 'known'),
      isSignedIn: false,
    })
  } catch (error) {
    if (!isTooBusy(error)) throw error
    c.header('retry-after', '5')
    return again(`${error.message}.`, 503)
  }
  if (checked.kind === 'paused') return again(`${tellPause(c, checked.waitSeconds)} ${otherWays(deps)}`, 429)
  if (checked.kind === 'refused') return again(REFUSED, 401)
  if (checked.kind === 'suspended') return again(SUSPENDED, 403)
  const { userId } = checked
  const passwordStamp = passwordStampOf(checked.passwordHash)
  if (await findAuthenticator(deps, userId))
    return askForSecondFactor(c, deps, returnTo, { userId, passwordStamp, staysSignedIn })
  const started = await startSession(c, deps, {
    userId,
    proof: passwordProof(passwordStamp),
    amr: 'pwd',
    ways: ['password'],
    answeredRequest: answeredRequestOf(returnTo),
    staysSignedIn,
  })
  if (started === 'suspended') return again(SUSPENDED, 403)
  if (started === 'outdated') return again(REFUSED, 401)
  return redirect(c, returnTo.url)
}

export const signInPages = [
  page({
    path: '/sign-in',
    session: 'none',
    find: ({ deps, field }) => readReturnTo(deps, field('returnTo')),
    show: showSignIn,
    form: credentials,
    csrf: ({ target }) => signInPurpose(target),
    submit: signIn,
  }),
  ...secondFactorPages,
  passkeySignInPage,
]
