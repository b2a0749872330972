import type { Deps } from '../../deps.ts'
import { hashRequest } from '../../site/return-to.ts'
import type { Session } from '../../site/session.ts'
import { lacksSecondFactor, policyRefusal } from '../accounts/admission.ts'
import { hasSecondFactor } from '../accounts/authentication-level.ts'
import { isNativeRedirectUri } from '../clients/redirect-uri.ts'
import { hasConsent } from '../consents/consents.ts'
import { AuthorizeRefusal, type AuthorizeRequest } from './checks.ts'

/** What has to happen before a code may be issued; `issue` if nothing has to. */
export type Decision =
  | { next: 'sign-in' }
  | { next: 'choose-account'; session: Session }
  /** isRequired: by the client's policy; otherwise the user may skip it. */
  | { next: 'second-factor'; session: Session; isRequired: boolean }
  | { next: 'consent'; session: Session }
  | { next: 'issue'; session: Session }

/** How the user answered this very request on the way here; a repeated request is asked anew. */
function answerTo(request: AuthorizeRequest, session: Session): Session['answer'] {
  return session.answeredRequest?.equals(hashRequest(request.search)) ? session.answer : null
}

/**
 * True if the session is too old for the request, or of the wrong kind. A sign-in made for this request always passes, so
 * nothing loops.
 */
function needsSignIn(request: AuthorizeRequest, session: Session, now: Date): boolean {
  const answer = answerTo(request, session)
  if (answer === 'signed-in') return false
  const { prompt, maxAgeSeconds, hintedUserId } = request
  const isOlderThan = (seconds: number): boolean => now.getTime() - session.authTime.getTime() > seconds * 1_000
  // The second factor comes after the sign-in, so a user who declined it has signed in; the age of the sign-in still counts.
  if (answer === 'declined-second-factor') return Boolean(maxAgeSeconds) && isOlderThan(maxAgeSeconds ?? 0)
  if (prompt.has('login')) return true
  if (hintedUserId !== undefined && hintedUserId !== session.user.id) return true
  if (maxAgeSeconds === undefined) return false
  return maxAgeSeconds === 0 || isOlderThan(maxAgeSeconds)
}

/**
 * True if the session needs a second factor first. `acr_values` is only a preference, so it does not fail `prompt=none`, nor
 * does it ask again a user who has declined.
 */
function needsSecondFactor(request: AuthorizeRequest, session: Session): boolean {
  if (hasSecondFactor(session.amr)) return false
  if (request.client.requiresSecondFactor) return true
  return (
    request.acr === 'aal2' && !request.prompt.has('none') && answerTo(request, session) !== 'declined-second-factor'
  )
}

async function needsConsent(deps: Deps, request: AuthorizeRequest, session: Session): Promise<boolean> {
  const { client, redirectUri, scopes, prompt } = request
  if (prompt.has('consent')) return true
  // Any program on the user's machine may receive these redirects, so nothing is granted without a click (RFC 8252 §8.6).
  if (client.kind === 'public' && isNativeRedirectUri(redirectUri, client)) return true
  if (client.isFirstParty) return false
  return !(await hasConsent(deps, { userId: session.user.id, clientId: client.id, scopes }))
}

/**
 * Decides what comes next for a request that passed its checks, by the session and the user's answers so far (B §4).
 * isConsented: the user has just clicked. Throws AuthorizeRefusal if the client has to be refused.
 */
export async function decideAuthorize(
  deps: Deps,
  request: AuthorizeRequest,
  session: Session | undefined,
  isConsented = false,
): Promise<Decision> {
  const refuse = (error: string, description: string) => new AuthorizeRefusal(request, error, description)
  const isSilent = request.prompt.has('none')

  if (!session || needsSignIn(request, session, deps.now())) {
    if (isSilent) throw refuse('login_required', 'The user has to sign in')
    return { next: 'sign-in' }
  }
  if (request.hintedUserId !== undefined && request.hintedUserId !== session.user.id)
    throw refuse('login_required', 'Another user than the hinted one is signed in')
  if (request.prompt.has('select_account') && answerTo(request, session) === null)
    return { next: 'choose-account', session }

  const refusal = policyRefusal(request.client, session.user)
  if (refusal !== undefined) throw refuse('access_denied', refusal)

  if (needsSecondFactor(request, session)) {
    // Not login_required: the user is signed in, and may even have to set up a second factor (OIDC Core §3.1.2.6).
    if (isSilent) throw refuse('interaction_required', 'The user has to show a second factor')
    return { next: 'second-factor', session, isRequired: lacksSecondFactor(request.client, session.amr) }
  }

  if (!isConsented && (await needsConsent(deps, request, session))) {
    if (isSilent) throw refuse('consent_required', 'The user has to consent')
    return { next: 'consent', session }
  }
  return { next: 'issue', session }
}
