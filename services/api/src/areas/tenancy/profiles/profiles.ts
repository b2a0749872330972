import { getJson } from '@platform/auth/get-json'
import type { Db } from '@platform/runtime/database'
import { entriesMax } from '@platform/runtime/entries-max'
import type { Logger } from '@platform/runtime/logger'
import { createSemaphore } from '@platform/service/semaphore'
import { type Trace, traceHeaders } from '@platform/service/trace'
import { sql } from 'drizzle-orm'
import { LRUCache } from 'lru-cache'
import { z } from 'zod'
import type { LearnProfile } from '../../../core.ts'
import { profiles } from './table.ts'

/** How long a profile counts as fresh: a changed name shows after this, with the user's next token. */
const FRESH_MS = 10 * 60_000
const FETCH_TIMEOUT_MS = 5_000
const USERS_MAX = 50_000
const AT_ONCE = 4
const WAITING_MAX = 1_000

const text = z
  .string()
  .max(2_048)
  .refine((value) => !value.includes('\0'))
  .optional()
const Userinfo = z.object({ sub: z.string(), email: text, given_name: text, family_name: text, picture: text })

interface LearnerOptions {
  db: Db
  now: () => Date
  logger: Logger
  userinfoEndpoint: () => Promise<URL>
}

/**
 * Learns users' names from the identity provider's userinfo, with their own tokens and in the background of the requests that
 * carried them (D73). Tokens without `openid` cannot be used; members that a token's scopes do not show stay as they are. After a
 * failure the next token triggers a retry.
 */
export function createProfileLearner({ db, now, logger, userinfoEndpoint }: LearnerOptions): LearnProfile {
  /** Users fetched less than FRESH_MS ago. ttlResolution 0: reads the clock each time instead of keeping a timer. */
  const fresh = new LRUCache<string, true>({
    ...entriesMax(USERS_MAX),
    ttl: FRESH_MS,
    ttlResolution: 0,
    perf: { now: () => now().getTime() },
  })
  const withSlot = createSemaphore({
    kind: 'profile',
    slots: AT_ONCE,
    queueMax: WAITING_MAX,
    refuse: () => new Error('too many profiles to learn'),
  })

  async function learn(userId: string, token: string, trace: Trace | undefined): Promise<void> {
    const answer = await getJson(await userinfoEndpoint(), {
      headers: { authorization: `Bearer ${token}`, ...traceHeaders(trace) },
      signal: AbortSignal.timeout(FETCH_TIMEOUT_MS),
    })
    const known = Userinfo.parse(answer)
    if (known.sub !== userId) throw new Error('userinfo speaks of another user')
    const seen = {
      email: known.email ?? null,
      givenName: known.given_name ?? null,
      familyName: known.family_name ?? null,
      imageUrl: known.picture ?? null,
    }
    await db
      .insert(profiles)
      .values({ userId, ...seen, learnedAt: now() })
      .onConflictDoUpdate({
        target: profiles.userId,
        set: {
          email: sql`coalesce(excluded.email, ${profiles.email})`,
          givenName: sql`coalesce(excluded.given_name, ${profiles.givenName})`,
          familyName: sql`coalesce(excluded.family_name, ${profiles.familyName})`,
          imageUrl: sql`coalesce(excluded.image_url, ${profiles.imageUrl})`,
          learnedAt: sql`excluded.learned_at`,
        },
      })
  }

  return (userId, token, scopes, trace) => {
    if (!scopes.has('openid')) return
    // A token whose scopes show other members than the last one's is used at once, however fresh the profile is.
    const shows = ['email', 'profile'].filter((scope) => scopes.has(scope)).join()
    const key = `${userId} ${shows}`
    if (fresh.get(key)) return
    fresh.set(key, true)
    withSlot(() => learn(userId, token, trace)).catch((error: unknown) => {
      fresh.delete(key)
      logger.debug({ err: error }, 'a profile was not learned')
    })
  }
}
