import type { Deps } from './deps.ts'
import { applicationsEndpoints } from './features/applications/pages.ts'
import { authenticatorEndpoints } from './features/authenticator/pages.ts'
import { authorizeEndpoint } from './features/authorize/routes.ts'
import { consentEndpoint } from './features/consents/routes.ts'
import { deviceEndpoints } from './features/device/pages.ts'
import { deviceAuthorizationEndpoint } from './features/device/routes.ts'
import { discoveryEndpoints } from './features/discovery/routes.ts'
import { emailEndpoints } from './features/email/pages.ts'
import { homeEndpoint } from './features/home/routes.ts'
import { passwordEndpoint } from './features/password/pages.ts'
import { passkeysEndpoints } from './features/passkeys/pages.ts'
import { resetEndpoints } from './features/password/reset-pages.ts'
import { revokeEndpoint } from './features/revoke/routes.ts'
import { sessionsEndpoints } from './features/sessions/pages.ts'
import { chooseAccountEndpoint } from './features/sign-in/choose-account.ts'
import { signInEndpoint } from './features/sign-in/routes.ts'
import { passkeySignInEndpoint } from './features/sign-in/passkey.ts'
import { secondFactorEndpoint } from './features/sign-in/second-factor.ts'
import { logoutEndpoint } from './features/sign-out/routes.ts'
import { signOutEndpoint } from './features/sign-out/pages.ts'
import { stepUpEndpoints } from './features/step-up/pages.ts'
import { tokenEndpoint } from './features/token/routes.ts'
import { userinfoEndpoint } from './features/userinfo/routes.ts'
import type { Endpoint } from './http/app.ts'
import { scriptEndpoint } from './site/script.ts'
import { styleEndpoint } from './site/style.ts'

/** The whole service: the endpoints of B §4 and the end of sessions, then the account site, which lives under {account_url}. */
export const listEndpoints = (deps: Deps): Endpoint[] => [
  ...discoveryEndpoints(deps),
  authorizeEndpoint,
  tokenEndpoint,
  userinfoEndpoint,
  revokeEndpoint,
  deviceAuthorizationEndpoint,
  logoutEndpoint,

  homeEndpoint(deps),
  signInEndpoint(deps),
  secondFactorEndpoint(deps),
  passkeySignInEndpoint(deps),
  ...stepUpEndpoints(deps),
  chooseAccountEndpoint(deps),
  consentEndpoint(deps),
  signOutEndpoint(deps),
  ...emailEndpoints(deps),
  passwordEndpoint(deps),
  ...resetEndpoints(deps),
  ...authenticatorEndpoints(deps),
  ...passkeysEndpoints(deps),
  ...sessionsEndpoints(deps),
  ...applicationsEndpoints(deps),
  ...deviceEndpoints(deps),
  scriptEndpoint(deps),
  styleEndpoint(deps),
]
