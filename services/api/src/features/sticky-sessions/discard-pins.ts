import { discardBefore } from '@platform/runtime/discard-rows'
import type { Deps } from '../../deps.ts'
import { stickyPins } from './table.ts'

/** The longest that a URL is good for: so long after the last one that was used, none is left that was made before. */
const KEPT_MS = 86_400_000

/** Deletes the pins of keys whose URLs have all expired, the unused ones too. Safe to repeat. */
export async function discardExpiredPins({ db, now }: Pick<Deps, 'db' | 'now'>): Promise<void> {
  await discardBefore(db, stickyPins.expiresAt, new Date(now().getTime() - KEPT_MS))
}
