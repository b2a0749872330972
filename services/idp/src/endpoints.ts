import type { Deps } from './deps.ts'
import { sessionsPages } from './features/active-sessions/pages.ts'
import { applicationsPages } from './features/applications/pages.ts'
import { authenticatorPages } from './features/authenticator/pages.ts'
import { authorizePages } from './features/authorize/pages.ts'
import { authorizeEndpoint } from './features/authorize/routes.ts'
import { devicePages } from './features/device/pages.ts'
import { deviceAuthorizationEndpoint } from './features/device/routes.ts'
import { discoveryEndpoints } from './features/discovery/routes.ts'
import { emailPages } from './features/email/pages.ts'
import { homePage } from './features/home/pages.ts'
import { joinPages } from './features/join/pages.ts'
import { passkeysPages } from './features/passkeys/pages.ts'
import { passwordPage } from './features/password/pages.ts'
import { resetPages } from './features/password/reset-pages.ts'
import { revokeEndpoint } from './features/revoke/routes.ts'
import { findSession } from './features/sessions/sessions.ts'
import { signInPages } from './features/sign-in/pages.ts'
import { signUpPages } from './features/sign-up/pages.ts'
import { signOutPage } from './features/sign-out/pages.ts'
import { logoutEndpoint } from './features/sign-out/routes.ts'
import { findMissingProof } from './features/step-up/missing-proof.ts'
import { stepUpPages } from './features/step-up/pages.ts'
import { tokenEndpoint } from './features/token/routes.ts'
import { userinfoEndpoint } from './features/userinfo/routes.ts'
import { welcomePage } from './features/welcome/pages.ts'
import type { Endpoint, Handle } from './http/app.ts'
import { answerMissingPage } from './site/missing-page.ts'
import type { Page } from './site/page.ts'
import { scriptEndpoint } from './site/script.ts'
import { styleEndpoints } from './site/style.ts'

/** The account site, below {account_url}. */
export const pages: readonly Page[] = [
  homePage,
  ...signInPages,
  ...signUpPages,
  ...joinPages,
  ...stepUpPages,
  ...authorizePages,
  signOutPage,
  ...emailPages,
  passwordPage,
  ...resetPages,
  welcomePage,
  ...authenticatorPages,
  ...passkeysPages,
  ...sessionsPages,
  ...applicationsPages,
  ...devicePages,
]

/** The whole service: the endpoints of B §4 and sign-out, then the account site. */
export const listEndpoints = (deps: Deps): Endpoint[] => [
  ...discoveryEndpoints(deps),
  authorizeEndpoint,
  tokenEndpoint,
  userinfoEndpoint,
  revokeEndpoint,
  deviceAuthorizationEndpoint,
  logoutEndpoint,

  ...pages.map((page) => page.mount(deps, { findSession, findMissingProof })),
  scriptEndpoint(deps),
  ...styleEndpoints(deps),
]

/** Answers paths that are not on the list. */
export const answerMissing: Handle = (c, deps) => answerMissingPage(c, deps, pages)
