import { and, eq, isNull, lt, or } from 'drizzle-orm'
import type { CredentialsDeps } from '../deps.ts'
import { apiKeys } from './table.ts'

const DAY_MS = 86_400_000

type LastUseDeps = Pick<CredentialsDeps, 'db' | 'now' | 'logger'>

/** What has to be known of a key that is used. */
interface UsedKey {
  id: string
  /** Set for the credential of a deployment's Functions. */
  deploymentId: string | null
  lastUsedAt: Date | null
}

/**
 * Keeps on which day (UTC) a key was last used. Of all uses of a day, in all processes, one writes: those at the same moment wait for its
 * row, and find it written. Credentials of deployments are nobody's to look after, so nothing is kept of them.
 *
 * Returns undefined if nothing is to be written. Never rejects: a database that takes no writes is no reason to refuse who only reads.
 */
export function keepLastUse(deps: LastUseDeps, key: UsedKey): Promise<void> | undefined {
  if (key.deploymentId !== null) return undefined
  const dayMs = Math.floor(deps.now().getTime() / DAY_MS) * DAY_MS
  if (key.lastUsedAt !== null && key.lastUsedAt.getTime() >= dayMs) return undefined
  return write(deps, key, new Date(dayMs))
}

async function write({ db, logger }: LastUseDeps, key: UsedKey, day: Date): Promise<void> {
  try {
    await db
      .update(apiKeys)
      .set({ lastUsedAt: day })
      .where(and(eq(apiKeys.id, key.id), or(isNull(apiKeys.lastUsedAt), lt(apiKeys.lastUsedAt, day))))
  } catch (error) {
    logger.warn({ err: error, apiKeyId: key.id }, 'the last use of an API key was not kept')
  }
}
