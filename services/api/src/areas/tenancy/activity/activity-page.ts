import { one } from '@platform/runtime/database'
import { and, count, desc, eq, lt } from 'drizzle-orm'
import { z } from 'zod'
import type { TenancyDeps } from '../deps.ts'
import { type CursorOf, readCursor, writeCursor } from '../../../http/pages.ts'
import { shownActivity } from './shown-activity.ts'
import { activities, type ActivityType } from './table.ts'

const position = z.object({ number: z.number(), total: z.number() })

/**
 * A page of an application's activity, newest first, as far back as it is kept. What is recorded while someone pages is on none of
 * the later pages. Only the first page counts (D31). Throws BadRequest for a cursor of another list or another type.
 */
export async function activityPage(
  { db, sealer }: Pick<TenancyDeps, 'db' | 'sealer'>,
  applicationId: string,
  { cursor, limit, type }: { cursor?: string | undefined; limit: number; type?: ActivityType | undefined },
): Promise<{ items: ReturnType<typeof shownActivity>[]; total: number; nextCursor: string | null }> {
  const of: CursorOf = { operation: 'listActivity', ownerId: applicationId, filters: { type } }
  const last = cursor === undefined ? undefined : readCursor(sealer, of, position, cursor)
  const matching = and(eq(activities.applicationId, applicationId), type && eq(activities.type, type))
  const [rows, counted] = await Promise.all([
    db
      .select()
      .from(activities)
      .where(and(matching, last && lt(activities.number, last.number)))
      .orderBy(desc(activities.number))
      .limit(limit + 1),
    last ? [last] : db.select({ total: count() }).from(activities).where(matching),
  ])
  const page = rows.slice(0, limit)
  const { total } = one<{ total: number }>(counted)
  const end = page.at(-1)
  const hasMore = rows.length > limit && end !== undefined
  return {
    items: page.map(shownActivity),
    total,
    nextCursor: hasMore ? writeCursor(sealer, of, { number: end.number, total }) : null,
  }
}
