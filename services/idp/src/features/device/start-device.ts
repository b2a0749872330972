import { createHash, randomBytes } from 'node:crypto'
import { isUniqueViolation } from '@platform/runtime/database'
import { newId } from '@platform/runtime/new-id'
import type { Scope } from '@platform/auth/scopes'
import type { Deps } from '../../deps.ts'
import type { Client } from '../clients/client.ts'
import { deviceAuthorizations } from '../grants/table.ts'
import { formatUserCode, newUserCode } from './user-code.ts'

const LIFETIME_SECONDS = 600
const INTERVAL_SECONDS = 5
/** Two of 2^40 codes collide so rarely that a third collision means something else is wrong. */
const TRIES = 3

/** Starts a device authorization (B §2). The device code has 256 random bits and is stored as a hash. */
export async function startDevice(
  { db, now, accountUrl }: Pick<Deps, 'db' | 'now' | 'accountUrl'>,
  {
    client,
    isClientProven,
    scopes,
    address,
    userAgent,
  }: {
    client: Client
    isClientProven: boolean
    scopes: readonly Scope[]
    address: string
    userAgent: string | null
  },
): Promise<Record<string, string | number>> {
  const time = now()
  const deviceCode = randomBytes(32).toString('base64url')
  for (let tries = 1; ; tries++) {
    const userCode = newUserCode()
    try {
      await db.insert(deviceAuthorizations).values({
        deviceCodeHash: createHash('sha256').update(deviceCode).digest(),
        userCode,
        clientId: client.id,
        scope: scopes.join(' '),
        address,
        userAgent,
        isClientProven,
        familyId: scopes.includes('offline_access') ? newId() : null,
        createdAt: time,
        expiresAt: new Date(time.getTime() + LIFETIME_SECONDS * 1_000),
        intervalSeconds: INTERVAL_SECONDS,
      })
    } catch (error) {
      if (tries < TRIES && isUniqueViolation(error, 'device_authorizations_user_code')) continue
      throw error
    }
    const shown = formatUserCode(userCode)
    return {
      device_code: deviceCode,
      user_code: shown,
      verification_uri: `${accountUrl}/device`,
      verification_uri_complete: `${accountUrl}/device?user_code=${shown}`,
      expires_in: LIFETIME_SECONDS,
      interval: INTERVAL_SECONDS,
    }
  }
}
