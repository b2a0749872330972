import type { TenancyDeps } from '../deps.ts'

/** The host of a label below APPS_URL, with the port if it is not the scheme's default (D76). */
export const hostnameOf = ({ appsUrl }: Pick<TenancyDeps, 'appsUrl'>, label: string): string =>
  `${label}.${appsUrl.host}`

/** The URL of a label below APPS_URL, as a browser opens it (D92). */
export const siteUrlOf = (deps: Pick<TenancyDeps, 'appsUrl'>, label: string): string =>
  `${deps.appsUrl.protocol}//${hostnameOf(deps, label)}`
