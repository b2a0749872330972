import { NotFound } from '@platform/errors/api-error'
import { keysAsRows, batchPerTick } from '@platform/runtime/batch-per-tick'
import { one } from '@platform/runtime/database'
import { newId } from '@platform/runtime/new-id'
import { lazyPrepared } from '@platform/runtime/lazy-prepared'
import { resealRows } from '@platform/runtime/reseal-rows'
import { and, asc, eq } from 'drizzle-orm'
import type { UserActor } from '../../../http/actor.ts'
import type { AiDeps } from '../deps.ts'
import type { Organization } from '../../tenancy/organizations/reach.ts'
import { aiProviderKeys } from './table.ts'

/** A provider key as the API shows it, without the key itself. */
interface ShownProviderKey {
  provider: string
  last4: string
  createdByUserId: string
  createdAt: Date
  updatedAt: Date
}

const shownColumns = {
  provider: aiProviderKeys.provider,
  last4: aiProviderKeys.last4,
  createdByUserId: aiProviderKeys.createdByUserId,
  createdAt: aiProviderKeys.createdAt,
  updatedAt: aiProviderKeys.updatedAt,
}

const LAST_LENGTH = 4

/** Returns the last four characters of a key, but never more than a third of it: hidden ones become stars. */
function lastOf(key: string): string {
  const length = Math.min(LAST_LENGTH, Math.floor(key.length / 3))
  return key.slice(key.length - length).padStart(LAST_LENGTH, '*')
}

/** Lists an organization's keys, by provider. */
export const listProviderKeys = (
  { db }: Pick<AiDeps, 'db'>,
  { id }: Pick<Organization, 'id'>,
): Promise<ShownProviderKey[]> =>
  db
    .select(shownColumns)
    .from(aiProviderKeys)
    .where(eq(aiProviderKeys.organizationId, id))
    .orderBy(asc(aiProviderKeys.provider))

/**
 * Sets the key for an organization's calls to a provider; replacing a key keeps the original creator and creation time. Logs the
 * change. Throws NotFound for a provider that the operator does not list. Safe to repeat.
 */
export async function setProviderKey(
  { db, sealer, now, logger, ai }: Pick<AiDeps, 'db' | 'sealer' | 'now' | 'logger' | 'ai'>,
  by: UserActor,
  { id: organizationId }: Pick<Organization, 'id'>,
  provider: string,
  key: string,
): Promise<ShownProviderKey> {
  const driver = ai.catalog.providers.get(provider)?.driver
  if (driver === undefined || driver === 'local') throw new NotFound('Provider')
  const id = newId()
  const time = now()
  const replaced = { id, ...sealer.seal(key, id), last4: lastOf(key), updatedAt: time }
  const rows = await db
    .insert(aiProviderKeys)
    .values({ ...replaced, organizationId, provider, createdByUserId: by.userId, createdAt: time })
    .onConflictDoUpdate({ target: [aiProviderKeys.organizationId, aiProviderKeys.provider], set: replaced })
    .returning(shownColumns)
  logger.info({ organizationId, provider, userId: by.userId }, 'AI provider key set')
  return one(rows)
}

/** Removes a key, also for a provider that the operator no longer lists. Logs the change. Throws NotFound. */
export async function deleteProviderKey(
  { db, logger }: Pick<AiDeps, 'db' | 'logger'>,
  by: UserActor,
  { id: organizationId }: Pick<Organization, 'id'>,
  provider: string,
): Promise<void> {
  const gone = await db
    .delete(aiProviderKeys)
    .where(and(eq(aiProviderKeys.organizationId, organizationId), eq(aiProviderKeys.provider, provider)))
    .returning({ id: aiProviderKeys.id })
  if (gone.length === 0) throw new NotFound('Provider key')
  logger.info({ organizationId, provider, userId: by.userId }, 'AI provider key deleted')
}

const lookups = keysAsRows({ organizationId: 'uuid' })

/** Finds the sealed keys of organizations: one statement for all requests of a tick. */
const findSealedKeys = lazyPrepared((db) => {
  const { id, provider, ciphertext, kekId } = aiProviderKeys
  const query = db
    .select({ id, provider, ciphertext, kekId, n: lookups.n })
    .from(lookups.from)
    .innerJoin(aiProviderKeys, eq(aiProviderKeys.organizationId, lookups.columns.organizationId))
    .prepare('ai_provider_keys')
  return batchPerTick(async (organizationIds: readonly string[]) => {
    const rows = await query.execute(lookups.parameters(organizationIds.map((organizationId) => ({ organizationId }))))
    const byNumber = Map.groupBy(rows, ({ n }) => n)
    return organizationIds.map((_, index) => byNumber.get(index + 1))
  })
})

/** Returns an organization's keys by provider, unsealed. Throws if one is sealed under a master key that is not configured. */
export async function findProviderKeys(
  { db, sealer }: Pick<AiDeps, 'db' | 'sealer'>,
  organizationId: string,
): Promise<Map<string, string>> {
  const rows = (await findSealedKeys(db)(organizationId)) ?? []
  return new Map(rows.map((row) => [row.provider, sealer.open(row, row.id).toString('utf8')]))
}

/** Reseals every key that is not under the current master key. Returns their number. Safe to repeat. */
export const resealProviderKeys = (deps: Pick<AiDeps, 'db' | 'sealer'>): Promise<number> =>
  resealRows(deps, aiProviderKeys, (id) => id)
