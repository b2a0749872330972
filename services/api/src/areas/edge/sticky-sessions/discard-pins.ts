import { discardBefore } from '@platform/runtime/discard-rows'
import type { EdgeDeps } from '../deps.ts'
import { stickyPins } from './table.ts'

/** Maximum lifetime of a URL: this long after the last used URL of a key expired, older ones have expired too. */
const KEPT_MS = 86_400_000

/** Deletes the pins of keys whose URLs have all expired, unused ones included. Safe to repeat. */
export async function discardExpiredPins({ db, now }: Pick<EdgeDeps, 'db' | 'now'>): Promise<void> {
  await discardBefore(db, stickyPins.expiresAt, new Date(now().getTime() - KEPT_MS))
}
