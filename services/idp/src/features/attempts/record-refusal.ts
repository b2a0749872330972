import { recordAudit } from '@platform/service/audit'
import type { Deps } from '../../deps.ts'
import type { Source } from '../../site/source.ts'

const EACH_MAX = 1_024

/** The 1st, 2nd, 4th and so on to the 1,024th guess, and each 1,024th from there. */
const isRecorded = (guesses: number): boolean => (guesses & (guesses - 1)) === 0 || guesses % EACH_MAX === 0

interface Refusal {
  userId: string
  action: 'user.password_refused' | 'user.second_factor_refused'
  /** What the counter of the account, or of its known browser, stands at with this guess. */
  guesses: number
  source: Source
}

/**
 * Records wrong guesses at an account that exists, with how many there were and where the last one came from. Only those whose
 * number doubles: a day of guesses that all are looked at makes a dozen rows for an account, however many addresses they come
 * from. Success, and a day without guesses, begin the count anew.
 *
 * It is written after the answer, so that an account that exists takes no longer than one that does not.
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
