import { discardBefore, DISCARDED_AT_ONCE, inBatch } from '@platform/runtime/discard-rows'
import { discardAuditEvents } from '@platform/service/audit'
import { type Jobs, type PeriodicJobs, startPeriodicJobs } from '@platform/service/periodic-jobs'
import { and, asc, gt, lt, lte, or } from 'drizzle-orm'
import type { Deps } from '../deps.ts'
import { attempts } from '../features/attempts/table.ts'
import { authorizationCodes, deviceAuthorizations } from '../features/grants/table.ts'
import { oneTimeLinks } from '../features/links/table.ts'
import { usedChallenges } from '../features/passkeys/table.ts'
import { refreshFamilies } from '../features/refresh/table.ts'
import { sessions } from '../features/sessions/table.ts'
import { signUps } from '../features/sign-up/table.ts'

const EVERY_MS = 600_000
const DAY_MS = 86_400_000

/**
 * Deletes refresh families a day after they expired or were revoked. They have no index for this, since every rotation would
 * pay for it: this scans all of them by id, a thousand at a time. Returns false if another process is cleaning up.
 */
async function discardFamilies(db: Deps['db'], before: Date): Promise<boolean> {
  for (let after: string | undefined, isDone = false; !isDone;) {
    const page = await inBatch(db, async (tx) => {
      const beyond = after === undefined ? undefined : gt(refreshFamilies.id, after)
      const [last] = await tx
        .select({ id: refreshFamilies.id })
        .from(refreshFamilies)
        .where(beyond)
        .orderBy(asc(refreshFamilies.id))
        .offset(DISCARDED_AT_ONCE - 1)
        .limit(1)
      const upTo = last && lte(refreshFamilies.id, last.id)
      const isOver = or(lt(refreshFamilies.expiresAt, before), lt(refreshFamilies.revokedAt, before))
      await tx.delete(refreshFamilies).where(and(beyond, upTo, isOver))
      return { last: last?.id }
    })
    if (!page) return false
    isDone = page.last === undefined
    after = page.last
  }
  return true
}

/**
 * Deletes unusable rows: sessions, links and challenges at once, codes, device codes and sign-ups a day after they expired (D64),
 * so that pages can say what is over. One process works at a time; others skip their run.
 */
export async function discardExpired({ db, now }: Pick<Deps, 'db' | 'now'>): Promise<void> {
  const time = now()
  const dayAgo = new Date(time.getTime() - DAY_MS)
  const steps = [
    () => discardBefore(db, sessions.expiresAt, time),
    () => discardBefore(db, oneTimeLinks.expiresAt, time),
    () => discardBefore(db, usedChallenges.expiresAt, time),
    () => discardBefore(db, signUps.expiresAt, dayAgo),
    () => discardBefore(db, authorizationCodes.expiresAt, dayAgo),
    () => discardBefore(db, deviceAuthorizations.expiresAt, dayAgo),
    () => discardBefore(db, attempts.updatedAt, dayAgo),
    () => discardFamilies(db, dayAgo),
  ]
  for (const step of steps) if (!(await step())) return
}

/** The cleanup jobs. auditDays: for how many days audit events are kept; 0 keeps them for ever. */
export const housekeepingJobs = (auditDays: number): Jobs<Deps> => ({
  'discard expired rows': discardExpired,
  'discard audit events': (deps) => discardAuditEvents(deps, auditDays),
})

/** Cleans up every ten minutes, starting ten minutes from now. */
export const startHousekeeping = (deps: Deps, auditDays: number): PeriodicJobs =>
  startPeriodicJobs(deps, housekeepingJobs(auditDays), { everyMs: EVERY_MS, isFirstAtOnce: false })
