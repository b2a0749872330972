import { z } from '@hono/zod-openapi'
import { endpoint } from '../deps.ts'
import { eventStream } from '../../../http/endpoint.ts'
import { id, instant, pathId, shown } from '../../../http/fields.ts'
import { cursorPage, cursorQuery } from '../../../http/pages.ts'
import { reachApplication } from '../applications/reach.ts'
import { requireStreamAuthority } from '../../cluster/streams/stream-authority.ts'
import { activityPage } from './activity-page.ts'
import { activityTypes } from './table.ts'

const Activity = z
  .object({
    id: shown('42').openapi({ description: 'The id of its event in the stream; unique within the application.' }),
    type: z.enum(activityTypes),
    applicationId: id,
    actor: z
      .object({
        type: z.enum(['user', 'api_key', 'function', 'platform']),
        id: shown('0199a3f0-5b7c-7cc0-9d3f-2f6f5c1b7a20').openapi({
          description: 'The user, API key or deployment; `platform` if no request caused the change.',
        }),
      })
      .openapi({ description: 'Who did it.' }),
    subject: z.record(z.string(), z.union([z.string().nullable(), z.boolean()])).openapi({
      type: 'object',
      // Written out, since of a union with null the generator makes one of anything.
      additionalProperties: { anyOf: [{ type: 'string', nullable: true }, { type: 'boolean' }] },
      description: 'What it was done to: `type`, `id` and a few properties that depend on the type. Never a value.',
      example: { type: 'variable', id: '0199a3f0-5b7c-7cc0-9d3f-2f6f5c1b7a10', key: 'LOG_LEVEL', sensitive: false },
    }),
    createdAt: instant,
  })
  .openapi('Activity')

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
    operation: 'listActivity',
    on: 'GET /applications/{id}/activity',
    spec: 'wire.md Extensions',
    tag: 'Activity',
    summary: 'List activity',
    description:
      'Changes to the application in the last 30 days, newest first: the items are the events of its stream.',
    actor: 'any',
    scope: 'network:applications:read',
    params: { id: pathId('Application') },
    query: z.object({
      ...cursorQuery(),
      type: z.enum(activityTypes).optional().openapi({ description: 'Changes of this type.' }),
    }),
    reach: (call) => reachApplication(call, call.params.id),
    returns: [200, cursorPage(Activity)],
    fails: [400],
    handle: ({ deps, target, query }) => activityPage(deps, target.id, query),
  }),
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
