import type { KeyObject } from 'node:crypto'
import type { Sealer } from '@platform/runtime/seal'
import type { CredentialScope } from '@platform/s3-protocol/signature/claim'
import { deriveSigningKey } from '@platform/s3-protocol/signature/signing-key'
import { LRUCache } from 'lru-cache'
import { hmacFromState } from '../api-keys/signing-state.ts'

/** Days and regions of keys that sign now: a client uses one region, and at midnight two days. */
const REMEMBERED_MAX = 10_000

/** The sealed signing state of an API key, as its row has it (D42). */
export interface SealedState {
  keyId: string
  ciphertext: Buffer
  kekId: string
}

/** Gives the SigV4 key of a day and region. Rejects when the state does not open. */
export type SigningKeys = (state: SealedState, scope: Pick<CredentialScope, 'day' | 'region'>) => Promise<KeyObject>

/**
 * Derives SigV4 signing keys from sealed states and remembers them. What is remembered is found by the ciphertext as well,
 * so another state under the same id never meets an old key; whether the API key still holds is the caller's to look up.
 *
 * A day's key is remembered by itself: regions are made up by whoever asks, and the first step is the one that costs.
 */
export function createSigningKeys(sealer: Pick<Sealer, 'open'>): SigningKeys {
  const days = new LRUCache<string, Buffer>({ max: REMEMBERED_MAX })
  const known = new LRUCache<string, KeyObject>({ max: REMEMBERED_MAX })
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
