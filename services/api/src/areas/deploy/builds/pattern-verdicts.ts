import type { KeptVerdicts } from '@platform/build-output/pattern-verdict'
import { discardBefore } from '@platform/runtime/discard-rows'
import { eq } from 'drizzle-orm'
import type { DeployDeps } from '../deps.ts'
import { patternVerdicts } from './table.ts'

/** How old the time of use of a verdict becomes before it is renewed. */
const RENEWAL_MS = 86_400_000
const UNUSED_MS = 90 * 86_400_000

/**
 * The verdicts on patterns in the database, which all workers share. A database that is away costs analyses, and no deployment: what
 * cannot be read counts as unknown, and what cannot be written is lost.
 */
export function openKeptVerdicts({ db, now, logger }: Pick<DeployDeps, 'db' | 'now' | 'logger'>): KeptVerdicts {
  const isAt = (key: Buffer) => eq(patternVerdicts.key, key)
  return {
    async find(key) {
      try {
        const [row] = await db.select().from(patternVerdicts).where(isAt(key))
        const time = now()
        if (row && time.getTime() - row.usedAt.getTime() > RENEWAL_MS)
          await db.update(patternVerdicts).set({ usedAt: time }).where(isAt(key))
        return row
      } catch (error) {
        logger.warn({ err: error }, 'the verdict on a pattern cannot be looked up')
        return undefined
      }
    },
    async keep(key, { verdict, steps }) {
      try {
        await db.insert(patternVerdicts).values({ key, verdict, steps, usedAt: now() }).onConflictDoNothing()
      } catch (error) {
        logger.warn({ err: error }, 'the verdict on a pattern was not kept')
      }
    },
  }
}

/** Removes verdicts that no deployment has used for 90 days. Safe to repeat. */
export async function discardPatternVerdicts({ db, now }: Pick<DeployDeps, 'db' | 'now'>): Promise<void> {
  await discardBefore(db, patternVerdicts.usedAt, new Date(now().getTime() - UNUSED_MS))
}
