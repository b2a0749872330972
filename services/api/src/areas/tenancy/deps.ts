import type { Mailer } from '@platform/mail/mailer'
import type { Db } from '@platform/runtime/database'
import type { AfterAnswer } from '@platform/service/after-answer'
import type { Core, LearnProfile, RedeemJoined } from '../../core.ts'
import { endpointsOf } from '../../http/endpoints-of.ts'
import type { ActivityFeed } from './activity/feed.ts'

export interface TenancyDeps extends Core {
  activityFeed: ActivityFeed
  afterAnswer: AfterAnswer
  /** Where the identity provider's page leads those who joined. */
  consoleUrl: string | undefined
  /** Where the identity provider asks people whether they join. Rejects with Unavailable. */
  invitationEndpoint: () => Promise<URL>
  /** undefined: invitations are not mailed. */
  mailer: Mailer | undefined
  /** Throws Forbidden if a user owns as many organizations as they may (D113). Locks until the transaction ends. */
  requireOwnerQuota: (db: Db, userId: string) => Promise<void>
  /** Puts a new organization on the operator's default plan, in the transaction that creates it (D77). */
  startPlan: (db: Db, organizationId: string) => Promise<void>
}

export interface TenancyPorts {
  learnProfile: LearnProfile
  redeemJoined: RedeemJoined
}

export const { endpoint, openEndpoint } = endpointsOf<TenancyDeps>()
