import { z } from '@hono/zod-openapi'
import { one } from '@platform/runtime/database'
import { and, asc, count, eq, gt, inArray, sum } from 'drizzle-orm'
import type { Deps } from '../../deps.ts'
import { type CursorOf, readCursor, writeCursor } from '../../http/pages.ts'
import { deploymentFunctions } from '../deployments/table.ts'
import { functionSlots } from './table.ts'

/** An edge tells every 5 s what its slots take; what it told longer ago than this does not count. */
const SEEN_WITHIN_MS = 15_000

interface ShownFunction {
  id: string
  path: string
  kind: (typeof deploymentFunctions.$inferSelect)['kind']
  /** On all edges, now. */
  slots: number
  memoryBytes: number
  /** Since it was deployed. */
  coldStarts: number
  requests: number
}

const position = z.object({ path: z.string(), total: z.number() })

/** A page of the Functions of a deployment, by path. They are counted with the first page (D31). Throws BadRequest. */
export async function deploymentFunctionsPage(
  { db, sealer, now }: Pick<Deps, 'db' | 'sealer' | 'now'>,
  deploymentId: string,
  { cursor, limit }: { cursor?: string | undefined; limit: number },
): Promise<{ items: ShownFunction[]; total: number; nextCursor: string | null }> {
  const of: CursorOf = { operation: 'listDeploymentFunctions', ownerId: deploymentId, filters: {} }
  const last = cursor === undefined ? undefined : readCursor(sealer, of, position, cursor)
  const mine = eq(deploymentFunctions.deploymentId, deploymentId)
  const { id, path, kind, coldStarts, requests } = deploymentFunctions
  const [rows, counted] = await Promise.all([
    db
      .select({ id, path, kind, coldStarts, requests })
      .from(deploymentFunctions)
      .where(and(mine, last && gt(path, last.path)))
      .orderBy(asc(path))
      .limit(limit + 1),
    last ? [last] : db.select({ total: count() }).from(deploymentFunctions).where(mine),
  ])
  const items = rows.slice(0, limit)
  const running = await db
    .select({
      id: functionSlots.functionId,
      slots: sum(functionSlots.slots).mapWith(Number),
      memoryBytes: sum(functionSlots.memoryBytes).mapWith(Number),
    })
    .from(functionSlots)
    .where(
      and(
        inArray(
          functionSlots.functionId,
          items.map((row) => row.id),
        ),
        gt(functionSlots.seenAt, new Date(now().getTime() - SEEN_WITHIN_MS)),
      ),
    )
    .groupBy(functionSlots.functionId)
  const slotsOf = new Map(running.map(({ id: of, ...slots }) => [of, slots]))
  const { total } = one<{ total: number }>(counted)
  const end = items.at(-1)
  const hasMore = rows.length > limit && end !== undefined
  return {
    items: items.map((row) => ({ slots: 0, memoryBytes: 0, ...row, ...slotsOf.get(row.id) })),
    total,
    nextCursor: hasMore ? writeCursor(sealer, of, { path: end.path, total }) : null,
  }
}
