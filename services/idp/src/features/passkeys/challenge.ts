import { createHash, randomBytes } from 'node:crypto'
import type { Db } from '@platform/runtime/database'
import { z } from 'zod'
import type { Deps } from '../../deps.ts'
import { readTicket, writeTicket } from '../../site/ticket.ts'
import { usedChallenges } from './table.ts'

export type Purpose = 'passkey-sign-in' | 'passkey-second-factor' | 'passkey-step-up' | 'passkey-add'

/** A page with a sign-in form may stay open for long, and its challenge is asked for as it is opened. */
const LIFETIME_MS = 3_600_000
const shape = z.object({ nonce: z.string() })

/** What an authenticator signs: a ticket, so that nothing is stored for a page that was only looked at. */
export const newChallenge = (deps: Pick<Deps, 'sealer' | 'now'>, purpose: Purpose, cookie: string): string =>
  writeTicket(deps, { purpose, cookie }, { nonce: randomBytes(16).toString('base64url') }, LIFETIME_MS)

/** True for a challenge (in base64url, as it was signed) that we gave this browser for this, within the hour. */
export const isOurChallenge = (
  deps: Pick<Deps, 'sealer' | 'now'>,
  purpose: Purpose,
  cookie: string,
  challenge: string,
): boolean => readTicket(deps, { purpose, cookie }, shape, Buffer.from(challenge, 'base64url').toString()) !== undefined

/** Uses a challenge up: of any number that try, one gets true. Part of the transaction that does what was signed for. */
export async function useChallenge(tx: Pick<Db, 'insert'>, time: Date, challenge: string): Promise<boolean> {
  const used = await tx
    .insert(usedChallenges)
    .values({
      // Decoded: base64url can be spelled in more than one way.
      challengeHash: createHash('sha256').update(Buffer.from(challenge, 'base64url')).digest(),
      expiresAt: new Date(time.getTime() + LIFETIME_MS),
    })
    .onConflictDoNothing()
    .returning({ challengeHash: usedChallenges.challengeHash })
  return used.length > 0
}
