import { z } from '@hono/zod-openapi'
import { endpoint, eventStream } from '../../http/endpoint.ts'
import { pathId } from '../../http/fields.ts'
import { reachApplication } from '../applications/reach.ts'
import { requireStreamAuthority } from '../streams/stream-authority.ts'

const lastEventId = z
  .string()
  .regex(/^\d{1,15}$/, 'Expected the id of an event of this stream')
  .transform(Number)
  .openapi({
    type: 'string',
    pattern: '^\\d{1,15}$',
    description: 'The last event received: the stream goes on behind it.',
    example: '42',
  })

export const activityEndpoints = [
  endpoint({
    operation: 'streamActivity',
    on: 'GET /applications/{id}/activity/stream',
    spec: 'A §6, D47',
    tag: 'Activity',
    summary: 'Follow what is done to an application',
    description:
      'Server-sent events. A stream ends after 15 minutes, or within a minute once its reader may no longer read; connect again with `Last-Event-ID`, which goes on where another ended. 429 with `too_many_concurrent_streams` when 20 streams of the application are open.',
    actor: 'any',
    scope: 'network:applications:read',
    params: { id: pathId('Application') },
    headers: z.object({ 'Last-Event-ID': lastEventId.optional() }),
    reach: (call) => reachApplication(call, call.params.id),
    returns: [200, eventStream],
    handle: ({ deps, actor, target, headers }) =>
      deps.activityFeed.watch(target.id, headers['Last-Event-ID'] ?? target.activityNumber, () =>
        requireStreamAuthority({ deps, actor }, () => reachApplication({ deps, actor }, target.id)),
      ),
  }),
]
