import { chooseAccountPage } from './choose-account.ts'
import { consentPage } from './consent.ts'

/** Pages that the authorization endpoint may show first. The second factor is a separate feature: devices ask for it too. */
export const authorizePages = [chooseAccountPage, consentPage]
