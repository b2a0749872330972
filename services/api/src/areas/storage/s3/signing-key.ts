import type { KeyObject } from 'node:crypto'
import { entriesMax } from '@platform/runtime/entries-max'
import type { Sealer } from '@platform/runtime/seal'
import type { CredentialScope } from '@platform/s3-protocol/signature/claim'
import { deriveSigningKey } from '@platform/s3-protocol/signature/signing-key'
import { LRUCache } from 'lru-cache'
import { hmacFromState } from '../../credentials/api-keys/signing-state.ts'

/** Cached signing keys: a client uses one region, and two days around midnight. */
const REMEMBERED_MAX = 10_000

/** The sealed signing state in the row of an API key (D42). */
export interface SealedState {
  keyId: string
  ciphertext: Buffer
  kekId: string
}

/** Returns the SigV4 signing key of a day and region. Rejects if the state cannot be opened. */
export type SigningKeys = (state: SealedState, scope: Pick<CredentialScope, 'day' | 'region'>) => Promise<KeyObject>

/**
 * Derives SigV4 signing keys from sealed states and caches them. The ciphertext is part of the cache key, so a new state under
 * the same id never gets an old signing key. The caller checks that the API key is still valid.
 *
 * A day's key is cached separately: clients choose regions freely, and deriving the day's key is the expensive step.
 */
export function createSigningKeys(sealer: Pick<Sealer, 'open'>): SigningKeys {
  const days = new LRUCache<string, Buffer>({ ...entriesMax(REMEMBERED_MAX) })
  const known = new LRUCache<string, KeyObject>({ ...entriesMax(REMEMBERED_MAX) })
  return async (state, { day, region }) => {
    const ofDay = `${state.keyId}/${day}/${state.ciphertext.toString('base64')}`
    const name = `${ofDay}/${region}`
    const remembered = known.get(name)
    if (remembered) return remembered
    const dayKey = days.get(ofDay) ?? (await hmacFromState(sealer.open(state, `api_key:${state.keyId}`), day))
    days.set(ofDay, dayKey)
    const key = deriveSigningKey(dayKey, region)
    known.set(name, key)
    return key
  }
}
