import { chooseAccountPage } from './choose-account.ts'
import { consentPage } from './consent.ts'

/** What the authorization endpoint may ask before it answers. The second factor is a feature of its own: devices ask for it too. */
export const authorizePages = [chooseAccountPage, consentPage]
