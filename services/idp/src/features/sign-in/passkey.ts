import type { Deps } from '../../deps.ts'
import type { Ctx, Endpoint } from '../../http/app.ts'
import { readForm } from '../../http/body.ts'
import { cookieBeforeSession, requireCsrfBeforeSession } from '../../site/csrf.ts'
import { pageEndpoint } from '../../site/answer-page.ts'
import { redirect, redirectToSignIn } from '../../site/navigation.ts'
import { readReturnTo } from '../../site/return-to.ts'
import { findPasskeyUser } from '../passkeys/passkeys.ts'
import { startSession } from '../sessions/sessions.ts'
import { answerSignIn, signInPurpose, SUSPENDED } from './form.ts'
import { answeredRequestOf } from './waiting-client.ts'

const REFUSED =
  'This passkey did not sign you in. It may have been removed from your account, or the page was open for too long. Try again, or use your password.'

/** POST {account_url}/sign-in/passkey: what the browser's script got from an authenticator. It is both factors. */
async function signInByPasskey(c: Ctx, deps: Deps): Promise<Response> {
  const form = await readForm(c)
  const returnTo = readReturnTo(deps, form.get('returnTo'))
  requireCsrfBeforeSession(c, deps, form, signInPurpose(returnTo))
  const found = await findPasskeyUser(
    deps,
    { purpose: 'passkey-sign-in', cookie: cookieBeforeSession(c, deps) },
    form.get('credential') ?? '',
  )
  if (!found) return answerSignIn(c, deps, returnTo, { email: '', problem: REFUSED, status: 401 })
  const { userId, amr, assertion } = found
  const started = await startSession(c, deps, {
    userId,
    proof: { kind: 'passkey', assertion },
    amr,
    answeredRequest: answeredRequestOf(returnTo),
  })
  if (started === 'started') return redirect(c, returnTo.url)
  return started === 'suspended'
    ? answerSignIn(c, deps, returnTo, { email: '', problem: SUSPENDED, status: 403 })
    : answerSignIn(c, deps, returnTo, { email: '', problem: REFUSED, status: 401 })
}

/** GET leads to the page that has the form. */
const showBeginning = (c: Ctx, deps: Deps): Response => redirectToSignIn(c, deps, readReturnTo(deps, undefined))

export const passkeySignInEndpoint = ({ accountPath }: Pick<Deps, 'accountPath'>): Endpoint =>
  pageEndpoint(`${accountPath}/sign-in/passkey`, { GET: showBeginning, POST: signInByPasskey })
