import { z } from '@hono/zod-openapi'
import { firstIdAt } from '@platform/runtime/new-id'
import { and, count, desc, eq, gte, lt, type SQL, sql } from 'drizzle-orm'
import type { ObserveDeps } from '../deps.ts'
import { readCursor, writeCursor } from '../../../http/pages.ts'
import { keptSince } from '../request-logs/request-logs.ts'
import { shownLine } from './shown-line.ts'
import { runtimeLogs } from './table.ts'

const DAY_MS = 86_400_000
/** Lines that a page scans at most: a search without an index must not run forever. */
const LOOKED_THROUGH_MAX = 100_000
/** Lines are counted up to this. */
const COUNTED_MAX = 10_000

type Line = typeof runtimeLogs.$inferSelect

/** The filters of a list or stream. All given ones must match. */
export interface LineFilters {
  level?: Line['level'] | undefined
  /** Substring of the message, case-insensitive. */
  search?: string | undefined
  functionId?: string | undefined
}

/** Whose lines: an application's, or only those of one of its deployments. */
interface LineOwner {
  operation: string
  application: { id: string; organizationId: string }
  deploymentId: string | undefined
}

/** Creates a predicate that filters lines exactly like the list. */
export function passes({ level, search, functionId }: LineFilters): (line: Line) => boolean {
  const sought = search?.toLowerCase()
  return (line) =>
    (level === undefined || line.level === level) &&
    (functionId === undefined || line.functionId === functionId) &&
    (sought === undefined || line.message.toLowerCase().includes(sought))
}

const Position = z.object({ id: z.guid(), total: z.number() })

/**
 * A page of lines, newest first, as far back as the plan keeps them (D77, D84). If few lines match, a page may hold fewer than
 * requested, or none, and still have a successor: each scans 100,000 lines. `total` is counted for the first page, among as many
 * lines and up to 10,000, and travels in the cursor (D31).
 */
export async function runtimeLogsPage(
  deps: Pick<ObserveDeps, 'db' | 'now' | 'sealer'>,
  { operation, application, deploymentId }: LineOwner,
  {
    cursor,
    limit,
    ...filters
  }: LineFilters & {
    requestId?: string | undefined
    from?: Date | undefined
    to?: Date | undefined
    cursor?: string | undefined
    limit: number
  },
) {
  const { db, now, sealer } = deps
  const of = { operation, ownerId: deploymentId ?? application.id, filters }
  const position = cursor === undefined ? undefined : readCursor(sealer, of, Position, cursor)
  const kept = await keptSince(deps, application)
  // Nothing lies outside, and callers may name years that ids and Postgres cannot represent.
  const latest = new Date(now().getTime() + DAY_MS)
  const within = (time: Date) => (time < kept ? kept : time > latest ? latest : time)
  const { level, search, functionId, requestId, from, to } = filters
  const range = and(
    deploymentId === undefined
      ? eq(runtimeLogs.applicationId, application.id)
      : eq(runtimeLogs.deploymentId, deploymentId),
    eq(runtimeLogs.applicationId, application.id),
    gte(runtimeLogs.id, firstIdAt(within(from ?? kept))),
    to && lt(runtimeLogs.id, firstIdAt(within(to))),
    requestId === undefined ? undefined : eq(runtimeLogs.requestId, requestId),
  )
  const looking = (before: string | undefined) =>
    db
      .select()
      .from(runtimeLogs)
      .where(and(range, before === undefined ? undefined : lt(runtimeLogs.id, before)))
      .orderBy(desc(runtimeLogs.id))
      .limit(LOOKED_THROUGH_MAX)
      .as('looked')
  const looked = looking(position?.id)
  const matching: (SQL | undefined)[] = [
    level && eq(looked.level, level),
    functionId === undefined ? undefined : eq(looked.functionId, functionId),
    search === undefined ? undefined : sql`strpos(lower(${looked.message}), lower(${search})) > 0`,
  ]
  async function countAll(): Promise<number> {
    const some = db
      .select({ one: sql`1`.as('one') })
      .from(looked)
      .where(and(...matching))
      .limit(COUNTED_MAX)
      .as('some')
    const [row] = await db.select({ counted: count() }).from(some)
    return row?.counted ?? 0
  }
  /** Where the page stopped scanning; undefined: at the end. */
  async function lastLookedAt(): Promise<string | undefined> {
    const [row] = await db
      .select({ id: looked.id })
      .from(looked)
      .orderBy(desc(looked.id))
      .offset(LOOKED_THROUGH_MAX - 1)
      .limit(1)
    return row?.id
  }
  const [rows, total] = await Promise.all([
    db
      .select()
      .from(looked)
      .where(and(...matching))
      .orderBy(desc(looked.id))
      .limit(limit + 1),
    position?.total ?? countAll(),
  ])
  const items = rows.slice(0, limit)
  const isNarrowed = matching.some((condition) => condition !== undefined)
  const nextId = rows.length > limit ? items.at(-1)?.id : isNarrowed ? await lastLookedAt() : undefined
  const nextCursor = nextId === undefined ? null : writeCursor(sealer, of, { id: nextId, total })
  return { items: items.map(shownLine), total, nextCursor }
}
