import type { Core } from './core.ts'
import type { ClusterPorts } from './areas/cluster/deps.ts'
import type { TenancyDeps } from './areas/tenancy/deps.ts'
import type { CredentialsDeps } from './areas/credentials/deps.ts'
import type { AiDeps } from './areas/ai/deps.ts'
import type { StorageDeps } from './areas/storage/deps.ts'
import type { DeployDeps } from './areas/deploy/deps.ts'
import type { ObserveDeps, ObservePorts } from './areas/observe/deps.ts'
import type { EdgeDeps } from './areas/edge/deps.ts'
import type { OverviewDeps } from './areas/overview/deps.ts'
import type { Trials } from './areas/deploy/deployments/trials.ts'

/**
 * What requests may use. Only compose.ts builds it; a function asks for the members it needs. A port is declared by the feature
 * that opens it. Such a feature takes explicit types rather than parts of Deps, since it is opened before Deps exists.
 */
export interface Deps
  extends
    Core,
    ClusterPorts,
    TenancyDeps,
    CredentialsDeps,
    AiDeps,
    StorageDeps,
    DeployDeps,
    ObserveDeps,
    ObservePorts,
    EdgeDeps,
    OverviewDeps {
  /** Starts Functions on the edges where they will be needed. */
  edgeWarmer: Trials
}
