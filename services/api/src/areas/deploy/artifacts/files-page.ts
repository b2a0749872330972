import { one } from '@platform/runtime/database'
import { and, asc, count, eq, gt } from 'drizzle-orm'
import { z } from 'zod'
import type { DeployDeps } from '../deps.ts'
import { type CursorOf, readCursor, writeCursor } from '../../../http/pages.ts'
import { deploymentFiles } from './table.ts'

interface DeployedFile {
  path: string
  bytes: number
  contentType: string
}

const position = z.object({ path: z.string(), total: z.number() })

/** A page of a deployment's served files, by path. Only the first page counts them (D31). Throws BadRequest. */
export async function deployedFilesPage(
  { db, sealer }: Pick<DeployDeps, 'db' | 'sealer'>,
  deploymentId: string,
  { cursor, limit }: { cursor?: string | undefined; limit: number },
): Promise<{ items: DeployedFile[]; total: number; nextCursor: string | null }> {
  const of: CursorOf = { operation: 'listDeploymentFiles', ownerId: deploymentId, filters: {} }
  const last = cursor === undefined ? undefined : readCursor(sealer, of, position, cursor)
  const mine = eq(deploymentFiles.deploymentId, deploymentId)
  const [rows, counted] = await Promise.all([
    db
      .select({ path: deploymentFiles.path, bytes: deploymentFiles.bytes, contentType: deploymentFiles.contentType })
      .from(deploymentFiles)
      .where(and(mine, last && gt(deploymentFiles.path, last.path)))
      .orderBy(asc(deploymentFiles.path))
      .limit(limit + 1),
    last ? [last] : db.select({ total: count() }).from(deploymentFiles).where(mine),
  ])
  const items = rows.slice(0, limit)
  const { total } = one<{ total: number }>(counted)
  const end = items.at(-1)
  const hasMore = rows.length > limit && end !== undefined
  return { items, total, nextCursor: hasMore ? writeCursor(sealer, of, { path: end.path, total }) : null }
}
