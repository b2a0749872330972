import { openMailer } from '@platform/mail/open-mailer'
import { createAfterAnswer } from '@platform/service/after-answer'
import type { Opened } from '../../area.ts'
import type { Config } from '../../config.ts'
import type { Core } from '../../core.ts'
import type { ClusterPorts } from '../cluster/deps.ts'
import { openActivityFeed } from './activity/feed.ts'
import { discardActivities } from './activity/record.ts'
import type { TenancyDeps, TenancyPorts } from './deps.ts'
import { tenancyEndpoints } from './endpoints.ts'
import { resealVariables } from './env-vars/env-vars.ts'
import { discardInvitations } from './invitations/invitations.ts'
import { createRedeemer } from './invitations/redeem.ts'
import { activatePlan } from './products/products.ts'
import { requireOwnerQuota } from './products/quotas.ts'
import { createProfileLearner } from './profiles/profiles.ts'

interface Options extends Pick<ClusterPorts, 'streamSlots'> {
  userinfoEndpoint: () => Promise<URL>
  invitationEndpoint: () => Promise<URL>
  heartbeatMs: number | undefined
}

export async function openTenancy(
  core: Core,
  config: Pick<Config, 'CONSOLE_URL' | 'DEFAULT_PLAN' | 'MAIL_URL' | 'MAIL_FROM'>,
  { streamSlots, userinfoEndpoint, invitationEndpoint, heartbeatMs }: Options,
): Promise<Opened<TenancyDeps, TenancyPorts>> {
  const mailer = await openMailer({
    url: config.MAIL_URL,
    from: config.MAIL_FROM,
    site: core.publicUrl,
    now: core.now,
    logger: core.logger,
  })
  const afterAnswer = createAfterAnswer(core.logger)
  const activityFeed = openActivityFeed({ ...core, streamSlots }, heartbeatMs)
  return {
    deps: {
      ...core,
      activityFeed,
      afterAnswer,
      consoleUrl: config.CONSOLE_URL,
      invitationEndpoint,
      mailer,
      requireOwnerQuota,
      async startPlan(tx, organizationId) {
        // An organization without a subscription is on the free plan.
        if (config.DEFAULT_PLAN !== 'free')
          await activatePlan({ ...core, db: tx }, organizationId, 'network', config.DEFAULT_PLAN)
      },
    },
    endpoints: tenancyEndpoints,
    ports: {
      learnProfile: createProfileLearner({ ...core, userinfoEndpoint }),
      redeemJoined: createRedeemer(core),
    },
    jobs: [
      { name: 'discard activities', run: discardActivities },
      { name: 'discard invitations', run: discardInvitations },
    ],
    sealed: [{ name: 'variables', reseal: resealVariables }],
    streams: { end: () => activityFeed.endStreams() },
    async close() {
      activityFeed.close()
      await afterAnswer.settled()
    },
  }
}
