import { timingSafeEqual } from 'node:crypto'
import type { RefreshKeys } from './refresh-keys.ts'

/** Identifies a refresh token: its grant, and its generation within it. */
export interface RefreshTokenId {
  familyId: string
  generation: number
}

const FORMAT = /^(v1\.([\w-]{8})\.([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.([1-9]\d{0,8}))\.([\w-]{43})$/

/** Writes `v1.<key id>.<family>.<generation>.<MAC>`: no part of it is stored, and a forged one never reaches the database. */
export function writeRefreshToken(keys: RefreshKeys, { familyId, generation }: RefreshTokenId): string {
  const key = keys.current()
  const text = `v1.${key.id}.${familyId}.${generation}`
  return `${text}.${key.mac(text)}`
}

/** Reads an authentic token; undefined for anything that this service did not write. */
export function readRefreshToken(keys: RefreshKeys, token: string): RefreshTokenId | undefined {
  const [, text = '', keyId = '', familyId = '', generation = '', mac = ''] = FORMAT.exec(token) ?? []
  const expected = text === '' ? undefined : keys.mac(keyId, text)
  // As text, not as bytes: the last of 43 characters carries two unused bits, so three more spellings would pass.
  if (expected === undefined || !timingSafeEqual(Buffer.from(expected), Buffer.from(mac))) return undefined
  return { familyId, generation: Number(generation) }
}
