import { z } from '@hono/zod-openapi'
import type { AiDeps } from '../../deps.ts'
import { readCursor, writeCursor } from '../../../../http/pages.ts'
import { countEvents, type EventFilters, findEvents } from './find-events.ts'
import { type ShownEvent, shownEvent } from './shown-event.ts'

/** Maximum size of a page's events, as JSON. */
const PAGE_BYTES_MAX = 1_048_576 - 4_096

const Position = z.object({ id: z.guid(), total: z.number() })

/** Returns as many of the events as fit into a page, at least one. */
function fitting(events: readonly ShownEvent[]): ShownEvent[] {
  let bytes = 0
  const end = events.findIndex((event) => (bytes += Buffer.byteLength(JSON.stringify(event)) + 1) > PAGE_BYTES_MAX)
  return end < 0 ? [...events] : events.slice(0, Math.max(1, end))
}

/**
 * Returns a page of usage events, newest first; fewer than requested if they would exceed 1 MiB. `total` is counted with the first
 * page and carried in the cursor.
 */
export async function eventsPage(
  deps: Pick<AiDeps, 'db' | 'now' | 'sealer'>,
  { cursor, limit, ...filters }: EventFilters & { cursor?: string | undefined; limit: number },
): Promise<{ items: ShownEvent[]; total: number; nextCursor: string | null }> {
  const of = { operation: 'listAiUsageRequests', ownerId: filters.organizationId, filters: { ...filters } }
  const position = cursor === undefined ? undefined : readCursor(deps.sealer, of, Position, cursor)
  const [rows, total] = await Promise.all([
    findEvents(deps, filters, position?.id, limit + 1),
    position?.total ?? countEvents(deps, filters),
  ])
  const items = fitting(rows.slice(0, limit).map(shownEvent))
  const last = items.at(-1)
  const nextCursor = rows.length > items.length && last ? writeCursor(deps.sealer, of, { id: last.id, total }) : null
  return { items, total, nextCursor }
}
