import { recordAudit } from '@platform/service/audit'
import type { Deps } from '../../deps.ts'
import type { Source } from '../../site/source.ts'

const EACH_MAX = 1_024

/** The 1st, 2nd, 4th and so on to the 1,024th guess, and each 1,024th from there. */
const isRecorded = (guesses: number): boolean => (guesses & (guesses - 1)) === 0 || guesses % EACH_MAX === 0

interface Refusal {
  userId: string
  action: 'user.password_refused' | 'user.second_factor_refused'
  /** The count of the account, or of its known browser, including this guess. */
  guesses: number
  source: Source
}

/**
 * Records wrong guesses at an existing account, with their number and the source of the latest. Only counts that double are
 * recorded: a day of admitted guesses makes a dozen rows for an account, however many addresses they come from. Success, or a
 * day without guesses, restarts the count.
 *
 * It is written after the answer, so that an existing account takes no longer than a missing one.
 */
export function recordRefusal(
  { db, now, afterAnswer }: Pick<Deps, 'db' | 'now' | 'afterAnswer'>,
  { userId, action, guesses, source }: Refusal,
): void {
  if (!isRecorded(guesses)) return
  const time = now()
  afterAnswer.run('record a refused sign-in', () =>
    recordAudit(db, time, { actor: 'system', action, subject: `user:${userId}`, details: { guesses, ...source } }),
  )
}
