import { z } from '@hono/zod-openapi'
import { one } from '@platform/runtime/database'
import { and, asc, count, eq, gt, inArray, sum } from 'drizzle-orm'
import type { EdgeDeps } from '../deps.ts'
import { type CursorOf, readCursor, writeCursor } from '../../../http/pages.ts'
import { deploymentFunctions } from '../../deploy/deployments/table.ts'
import { functionSlots } from './table.ts'

/** Edges report their slots every 5 s; reports older than this do not count. */
const SEEN_WITHIN_MS = 15_000

interface ShownFunction {
  id: string
  path: string
  kind: (typeof deploymentFunctions.$inferSelect)['kind']
  /** Currently, across all edges. */
  slots: number
  memoryBytes: number
  /** Since deployment. */
  coldStarts: number
  requests: number
}

const position = z.object({ path: z.string(), total: z.number() })

/** A page of a deployment's Functions, by path. Only the first page counts them (D31). Throws BadRequest. */
export async function deploymentFunctionsPage(
  { db, sealer, now }: Pick<EdgeDeps, 'db' | 'sealer' | 'now'>,
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
