import { createHash, randomBytes } from 'node:crypto'
import type { Db } from '@platform/runtime/database'
import { z } from 'zod'
import type { Deps } from '../../deps.ts'
import { readTicket, writeTicket } from '../../site/ticket.ts'
import { usedChallenges } from './table.ts'

export type Purpose = 'passkey-sign-in' | 'passkey-second-factor' | 'passkey-step-up' | 'passkey-add'

/** A page with a sign-in form may stay open for long, and its challenge is made when it opens. */
const LIFETIME_MS = 3_600_000
const shape = z.object({ nonce: z.string() })

/** Makes the challenge that an authenticator signs: a ticket, so that nothing is stored for a page that was only looked at. */
export const newChallenge = (deps: Pick<Deps, 'sealer' | 'now'>, purpose: Purpose, cookie: string): string =>
  writeTicket(deps, { purpose, cookie }, { nonce: randomBytes(16).toString('base64url') }, LIFETIME_MS)

/** True for a challenge (base64url, as signed) that we issued to this browser for this purpose within the hour. */
export const isOurChallenge = (
  deps: Pick<Deps, 'sealer' | 'now'>,
  purpose: Purpose,
  cookie: string,
  challenge: string,
): boolean => readTicket(deps, { purpose, cookie }, shape, Buffer.from(challenge, 'base64url').toString()) !== undefined

/** Consumes a challenge: of several concurrent calls one returns true. Part of the transaction that the signature is for. */
export async function useChallenge(tx: Pick<Db, 'insert'>, time: Date, challenge: string): Promise<boolean> {
  const used = await tx
    .insert(usedChallenges)
    .values({
      // Decoded, since base64url can be spelled in more than one way.
      challengeHash: createHash('sha256').update(Buffer.from(challenge, 'base64url')).digest(),
      expiresAt: new Date(time.getTime() + LIFETIME_MS),
    })
    .onConflictDoNothing()
    .returning({ challengeHash: usedChallenges.challengeHash })
  return used.length > 0
}
