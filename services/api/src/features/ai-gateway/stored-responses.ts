import { discardBefore } from '@platform/runtime/discard-rows'
import { and, eq, isNull } from 'drizzle-orm'
import type { Deps } from '../../deps.ts'
import type { KeyedRoute } from './providers/choose-routes.ts'
import type { Placement } from './place-call.ts'
import { aiResponses } from './table.ts'

const KEPT_MS = 30 * 86_400_000
/** Longer than any provider's ids. */
const ID_LENGTH_MAX = 512

const isStorable = (id: string): boolean => id.length <= ID_LENGTH_MAX && id.isWellFormed() && !id.includes('\0')

type Owner = Pick<Placement, 'organizationId' | 'applicationId'>

/** What is stored of an answer is no reason to break it off: without it the answer cannot be built on, which is said then. */
async function orWarn({ logger }: Pick<Deps, 'logger'>, stored: Promise<unknown>): Promise<void> {
  try {
    await stored
  } catch (error) {
    logger.warn({ err: error }, 'a response could not be stored')
  }
}

/** Remembers whose an answer is, before its caller learns the id. Safe to repeat. */
export async function keepResponse(
  deps: Pick<Deps, 'db' | 'now' | 'logger'>,
  { organizationId, applicationId }: Owner,
  { provider, upstreamModel }: KeyedRoute,
  id: string,
): Promise<void> {
  if (!isStorable(id)) return
  const row = { provider: provider.id, id, organizationId, applicationId, upstreamModel, createdAt: deps.now() }
  await orWarn(deps, deps.db.insert(aiResponses).values(row).onConflictDoNothing())
}

/** Notes how many tokens an answer has: what the next one builds on. An id that a provider gave to others before is theirs. */
export async function noteTokens(
  deps: Pick<Deps, 'db' | 'logger'>,
  { organizationId }: Owner,
  { provider }: KeyedRoute,
  id: string,
  totalTokens: number,
): Promise<void> {
  if (!isStorable(id)) return
  const isIt = and(
    eq(aiResponses.provider, provider.id),
    eq(aiResponses.id, id),
    eq(aiResponses.organizationId, organizationId),
  )
  await orWarn(deps, deps.db.update(aiResponses).set({ totalTokens }).where(isIt))
}

/** An answer that a provider keeps for this organization and application; undefined for any other, whoever's it is. */
export async function findStoredResponse(
  { db }: Pick<Deps, 'db'>,
  { organizationId, applicationId }: Owner,
  id: string,
): Promise<typeof aiResponses.$inferSelect | undefined> {
  if (!isStorable(id)) return undefined
  const [row] = await db
    .select()
    .from(aiResponses)
    .where(
      and(
        eq(aiResponses.id, id),
        eq(aiResponses.organizationId, organizationId),
        applicationId === null ? isNull(aiResponses.applicationId) : eq(aiResponses.applicationId, applicationId),
      ),
    )
  return row
}

/** Forgets answers that are older than 30 days, which is as long as providers keep them. */
export async function discardResponses({ db, now }: Pick<Deps, 'db' | 'now'>): Promise<void> {
  await discardBefore(db, aiResponses.createdAt, new Date(now().getTime() - KEPT_MS))
}
