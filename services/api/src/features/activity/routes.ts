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
    description: 'The id of the last event received; the stream continues after it.',
    example: '42',
  })

export const activityEndpoints = [
  endpoint({
    operation: 'streamActivity',
    on: 'GET /applications/{id}/activity/stream',
    spec: 'A §6, D47',
    tag: 'Activity',
    summary: 'Stream activity',
    description:
      'Server-sent events for changes to the application. A stream ends after 15 minutes, or within a minute of its reader losing access. Reconnect with `Last-Event-ID` to continue where it ended. 429 `too_many_concurrent_streams` when the application has 20 open streams.',
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
