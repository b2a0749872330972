import type { Db } from '@platform/runtime/database'
import type { Core, LearnProfile } from '../../core.ts'
import { endpointsOf } from '../../http/endpoints-of.ts'
import type { ActivityFeed } from './activity/feed.ts'

export interface TenancyDeps extends Core {
  activityFeed: ActivityFeed
  /** Puts a new organization on the operator's default plan, in the transaction that creates it (D77). */
  startPlan: (db: Db, organizationId: string) => Promise<void>
}

export interface TenancyPorts {
  learnProfile: LearnProfile
}

export const { endpoint } = endpointsOf<TenancyDeps>()
