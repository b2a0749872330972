import { discardBefore } from '@platform/runtime/discard-rows'
import { and, eq, inArray, isNull } from 'drizzle-orm'
import type { AiDeps } from '../deps.ts'
import type { KeyedRoute } from './providers/choose-routes.ts'
import type { Placement } from './place-call.ts'
import { aiResponseItems, aiResponses } from './table.ts'

const KEPT_MS = 30 * 86_400_000
/** Longer than any provider's ids. */
const ID_LENGTH_MAX = 512
/** Items of one answer; later ones cannot be referred to. */
const ITEMS_MAX = 1_000

const isStorable = (id: string): boolean => id.length <= ID_LENGTH_MAX && id.isWellFormed() && !id.includes('\0')

export type StoredResponse = typeof aiResponses.$inferSelect

type Owner = Pick<Placement, 'organizationId' | 'applicationId'>

/** Restricts to rows of this organization and, if the call has one, application. */
const isOf = (table: typeof aiResponses | typeof aiResponseItems, { organizationId, applicationId }: Owner) =>
  and(
    eq(table.organizationId, organizationId),
    applicationId === null ? isNull(table.applicationId) : eq(table.applicationId, applicationId),
  )

/** A failed write does not break off the answer: it only cannot be built on later, and the log says so. */
async function orWarn({ logger }: Pick<AiDeps, 'logger'>, stored: Promise<unknown>): Promise<void> {
  try {
    await stored
  } catch (error) {
    logger.warn({ err: error }, 'a response could not be stored')
  }
}

/** Records the owner of an answer, before its caller gets the id. Safe to repeat. */
export async function keepResponse(
  deps: Pick<AiDeps, 'db' | 'now' | 'logger'>,
  { organizationId, applicationId }: Owner,
  { provider, upstreamModel }: KeyedRoute,
  id: string,
): Promise<void> {
  if (!isStorable(id)) return
  const row = { provider: provider.id, id, organizationId, applicationId, upstreamModel, createdAt: deps.now() }
  await orWarn(deps, deps.db.insert(aiResponses).values(row).onConflictDoNothing())
}

/** A complete answer. */
interface WholeResponse {
  id: string
  /** Ids of its output items, as the provider made them. */
  itemIds: readonly string[]
  /** Input and output tokens: what the next answer builds on. undefined: unknown. */
  totalTokens: number | undefined
}

/** Records the items of an answer, before its caller gets them. An id that the provider already gave to others stays theirs. */
export async function completeResponse(
  deps: Pick<AiDeps, 'db' | 'now' | 'logger'>,
  owner: Owner,
  { provider }: KeyedRoute,
  { id, itemIds, totalTokens }: WholeResponse,
): Promise<void> {
  const { organizationId, applicationId } = owner
  const createdAt = deps.now()
  const items = itemIds
    .filter(isStorable)
    .slice(0, ITEMS_MAX)
    .map((item) => ({ id: item, provider: provider.id, organizationId, applicationId, createdAt }))
  const work: Promise<void>[] = []
  if (items.length > 0) work.push(orWarn(deps, deps.db.insert(aiResponseItems).values(items).onConflictDoNothing()))
  if (totalTokens !== undefined && isStorable(id)) work.push(noteTokens(deps, owner, provider.id, id, totalTokens))
  await Promise.all(work)
}

async function noteTokens(
  deps: Pick<AiDeps, 'db' | 'logger'>,
  { organizationId }: Owner,
  provider: string,
  id: string,
  totalTokens: number,
): Promise<void> {
  const isIt = and(
    eq(aiResponses.provider, provider),
    eq(aiResponses.id, id),
    eq(aiResponses.organizationId, organizationId),
  )
  await orWarn(deps, deps.db.update(aiResponses).set({ totalTokens }).where(isIt))
}

/** Finds an answer that a provider stores for this organization and application; undefined for anybody else's. */
export async function findStoredResponse(
  { db }: Pick<AiDeps, 'db'>,
  owner: Owner,
  id: string,
): Promise<StoredResponse | undefined> {
  if (!isStorable(id)) return undefined
  const [row] = await db
    .select()
    .from(aiResponses)
    .where(and(eq(aiResponses.id, id), isOf(aiResponses, owner)))
  return row
}

/** Returns those of the items that providers store for this organization and application, by provider. */
export async function findStoredItems(
  { db }: Pick<AiDeps, 'db'>,
  owner: Owner,
  ids: readonly string[],
): Promise<ReadonlyMap<string, ReadonlySet<string>>> {
  const storable = ids.filter(isStorable)
  if (storable.length === 0) return new Map()
  const rows = await db
    .select({ id: aiResponseItems.id, provider: aiResponseItems.provider })
    .from(aiResponseItems)
    .where(and(inArray(aiResponseItems.id, storable), isOf(aiResponseItems, owner)))
  const byProvider = Map.groupBy(rows, ({ provider }) => provider)
  return new Map([...byProvider].map(([provider, items]) => [provider, new Set(items.map(({ id }) => id))]))
}

/** Deletes answers older than 30 days, which is as long as providers keep them. */
export async function discardResponses({ db, now }: Pick<AiDeps, 'db' | 'now'>): Promise<void> {
  const before = new Date(now().getTime() - KEPT_MS)
  await discardBefore(db, aiResponses.createdAt, before)
  await discardBefore(db, aiResponseItems.createdAt, before)
}
