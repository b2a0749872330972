import type { Deps } from '../../deps.ts'

/** The host below APPS_URL, with the port where it is not the scheme's, of a first label (D76). */
export const hostnameOf = ({ appsUrl }: Pick<Deps, 'appsUrl'>, label: string): string => `${label}.${appsUrl.host}`

/** The same as a browser opens it (D92). */
export const siteUrlOf = (deps: Pick<Deps, 'appsUrl'>, label: string): string =>
  `${deps.appsUrl.protocol}//${hostnameOf(deps, label)}`
