import { z } from '@hono/zod-openapi'
import { NotFound } from '@platform/errors/api-error'
import { arrayLiteral } from '@platform/runtime/batch-per-tick'
import { firstIdAt, timeOfId } from '@platform/runtime/new-id'
import { and, desc, eq, getTableColumns, gte, lt, sql } from 'drizzle-orm'
import type { ObserveDeps } from '../deps.ts'
import { readCursor, writeCursor } from '../../../http/pages.ts'
import type { Application } from '../../tenancy/applications/reach.ts'
import { quotaOf } from '../../tenancy/products/quotas.ts'
import { hasFilters, conditionsOf, type RequestFilters } from './filters.ts'
import { hourOf, type Span } from './hours.ts'
import { segmentsOf, searchRangesOf, totalOf } from './segments.ts'
import { type ShownRequest, shownRequest } from './shown-request.ts'
import { requestLogs } from './table.ts'

const DAY_MS = 86_400_000
const ID_MAX = 'ffffffff-ffff-ffff-ffff-ffffffffffff'

type Row = typeof requestLogs.$inferSelect
type ReadDeps = Pick<ObserveDeps, 'db' | 'now'>

/** The first instant that the application's organization may still query: whole hours, by its plan (D77). */
export async function keptSince(
  { db, now }: ReadDeps,
  application: Pick<Application, 'organizationId'>,
): Promise<Date> {
  const days = await quotaOf({ db }, application.organizationId, 'log_retention_days')
  return hourOf(new Date(now().getTime() - days * DAY_MS))
}

/** The newest rows of some spans that match the filters: each span is searched from its end, for as many rows as are wanted. */
async function newestRows(
  { db }: ReadDeps,
  applicationId: string,
  spans: readonly Span[],
  filters: RequestFilters,
  before: string | undefined,
  limit: number,
): Promise<Row[]> {
  if (spans.length === 0) return []
  const lows = arrayLiteral(spans.map(({ from }) => firstIdAt(from)))
  const highs = arrayLiteral(spans.map(({ to }) => (to ? firstIdAt(to) : ID_MAX)))
  const range = db
    .select({ low: sql<string>`low`.as('low'), high: sql<string>`high`.as('high') })
    .from(sql`unnest(${lows}::uuid[], ${highs}::uuid[]) as ranges(low, high)`)
    .as('range')
  const newest = db
    .select()
    .from(requestLogs)
    .where(
      and(
        eq(requestLogs.applicationId, applicationId),
        gte(requestLogs.id, range.low),
        lt(requestLogs.id, range.high),
        before === undefined ? undefined : lt(requestLogs.id, before),
        ...conditionsOf(filters),
      ),
    )
    .orderBy(desc(requestLogs.id))
    .limit(limit)
    .as('found')
  const rows = await db.select().from(range).crossJoinLateral(newest).orderBy(desc(newest.id)).limit(limit)
  return rows.map((row) => row.found)
}

const Position = z.object({ id: z.guid(), total: z.number() })

/**
 * A page of an application's requests, by start time, newest first, as far back as its plan keeps them (A §4, D77). `total` is
 * counted for the first page and travels in the cursor (D31). Rare matches are searched only where the counts say that there are
 * any.
 */
export async function requestLogsPage(
  deps: ReadDeps & Pick<ObserveDeps, 'sealer'>,
  application: Application,
  { cursor, limit, ...requestFilters }: RequestFilters & { cursor?: string | undefined; limit: number },
): Promise<{ items: ShownRequest[]; total: number; nextCursor: string | null }> {
  const of = { operation: 'listRequests', ownerId: application.id, filters: { ...requestFilters } }
  const position = cursor === undefined ? undefined : readCursor(deps.sealer, of, Position, cursor)
  const kept = await keptSince(deps, application)
  // Nothing lies outside, and callers may name years that ids and Postgres cannot represent.
  const latest = new Date(deps.now().getTime() + DAY_MS)
  const within = (time: Date) => (time < kept ? kept : time > latest ? latest : time)
  const from = within(requestFilters.from ?? kept)
  const filters = { ...requestFilters, to: requestFilters.to && within(requestFilters.to) }
  const span = { from, to: position ? new Date(timeOfId(position.id).getTime() + 1) : filters.to }
  // Without filters, the rows after a cursor are the next ones.
  const isPlain = position !== undefined && !hasFilters(filters)
  const segments = isPlain ? [{ ...span, total: undefined }] : await segmentsOf(deps, application.id, span, filters)
  const [rows, total] = await Promise.all([
    newestRows(deps, application.id, searchRangesOf(segments, limit + 1), filters, position?.id, limit + 1),
    position?.total ?? totalOf(deps, application.id, segments, filters),
  ])
  const items = rows.slice(0, limit)
  const last = items.at(-1)
  const nextCursor = rows.length > limit && last ? writeCursor(deps.sealer, of, { id: last.id, total }) : null
  return { items: items.map((row) => shownRequest(row, application)), total, nextCursor }
}

/** One request with its headers, which were sanitized before being stored (A §2). Throws NotFound. */
export async function getRequestLog(deps: ReadDeps, application: Application, id: string) {
  const [row] = await deps.db
    .select(getTableColumns(requestLogs))
    .from(requestLogs)
    .where(
      and(
        eq(requestLogs.applicationId, application.id),
        eq(requestLogs.id, id),
        gte(requestLogs.id, firstIdAt(await keptSince(deps, application))),
      ),
    )
  if (!row) throw new NotFound('Request')
  const { requestHeaders, responseHeaders } = row
  return { ...shownRequest(row, application), requestHeaders, responseHeaders }
}
