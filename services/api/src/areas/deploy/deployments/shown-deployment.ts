import type { DeployDeps } from '../deps.ts'
import { hostnameOf, siteUrlOf } from '../../tenancy/applications/hostname-url.ts'
import type { Deployment } from './reach.ts'

/** A deployment as the API shows it (wire.md). */
export function shownDeployment(deps: Pick<DeployDeps, 'appsUrl'>, deployment: Deployment) {
  const { label, environment, buildStartedAt, buildEndedAt } = deployment
  return {
    ...deployment,
    hostname: hostnameOf(deps, label),
    url: siteUrlOf(deps, label),
    isProduction: environment === 'production',
    buildDurationMs: buildStartedAt && buildEndedAt ? buildEndedAt.getTime() - buildStartedAt.getTime() : null,
  }
}

export type ShownDeployment = ReturnType<typeof shownDeployment>
