import type { Opened } from '../../area.ts'
import type { Config } from '../../config.ts'
import type { Core } from '../../core.ts'
import type { ClusterPorts } from '../cluster/deps.ts'
import { openActivityFeed } from './activity/feed.ts'
import { discardActivities } from './activity/record.ts'
import type { TenancyDeps, TenancyPorts } from './deps.ts'
import { tenancyEndpoints } from './endpoints.ts'
import { resealVariables } from './env-vars/env-vars.ts'
import { activatePlan } from './products/products.ts'
import { createProfileLearner } from './profiles/profiles.ts'

interface Options extends Pick<ClusterPorts, 'streamSlots'> {
  userinfoEndpoint: () => Promise<URL>
  heartbeatMs: number | undefined
}

export function openTenancy(
  core: Core,
  config: Pick<Config, 'DEFAULT_PLAN'>,
  { streamSlots, userinfoEndpoint, heartbeatMs }: Options,
): Opened<TenancyDeps, TenancyPorts> {
  const activityFeed = openActivityFeed({ ...core, streamSlots }, heartbeatMs)
  return {
    deps: {
      ...core,
      activityFeed,
      async startPlan(tx, organizationId) {
        // An organization without a subscription is on the free plan.
        if (config.DEFAULT_PLAN !== 'free')
          await activatePlan({ ...core, db: tx }, organizationId, 'network', config.DEFAULT_PLAN)
      },
    },
    endpoints: tenancyEndpoints,
    ports: { learnProfile: createProfileLearner({ ...core, userinfoEndpoint }) },
    jobs: [{ name: 'discard activities', run: discardActivities }],
    sealed: [{ name: 'variables', reseal: resealVariables }],
    streams: { end: () => activityFeed.endStreams() },
    close: async () => activityFeed.close(),
  }
}
