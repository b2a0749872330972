import { createHash } from 'node:crypto'
import { OAuthError } from '@platform/errors/api-error'
import { and, eq, getTableColumns, gt, isNull, sql } from 'drizzle-orm'
import { lazyPrepared } from '@platform/runtime/lazy-prepared'
import type { Deps } from '../../deps.ts'
import { requireParameter } from '../../http/body.ts'
import { productWithdrawals, users } from '../accounts/table.ts'
import { clientColumns, liveSecretHashes } from '../clients/client.ts'
import { clients } from '../clients/table.ts'
import { deviceAuthorizations } from '../grants/table.ts'
import { foundedFamily } from '../refresh/families.ts'
import { refreshFamilies } from '../refresh/table.ts'
import type { RedeemGrant } from './grant-request.ts'
import { invalidGrant, issueTokens, REFRESH_MS, requireRedeemable } from './issue-tokens.ts'
import { accountColumns, isClientOfRequest, isWithdrawn } from './redeemable.ts'

type Device = typeof deviceAuthorizations.$inferSelect

/** Seconds that a poll which came too soon adds to the interval, permanently (RFC 8628 §3.5). */
const SLOW_DOWN_SECONDS = 5

const deviceOfClient = lazyPrepared((db) =>
  db
    .select({
      client: clientColumns,
      secretHashes: liveSecretHashes,
      device: getTableColumns(deviceAuthorizations),
      user: accountColumns,
      withdrawnProduct: productWithdrawals.product,
    })
    .from(clients)
    .leftJoin(
      deviceAuthorizations,
      and(
        eq(deviceAuthorizations.clientId, clients.id),
        eq(deviceAuthorizations.deviceCodeHash, sql.placeholder('deviceCodeHash')),
      ),
    )
    .leftJoin(users, eq(users.id, deviceAuthorizations.userId))
    .leftJoin(productWithdrawals, isWithdrawn)
    .where(isClientOfRequest)
    .prepare('device_of_client'),
)

const isRedeemable = and(
  eq(deviceAuthorizations.deviceCodeHash, sql.placeholder('deviceCodeHash')),
  eq(deviceAuthorizations.decision, 'approved'),
  isNull(deviceAuthorizations.consumedAt),
  gt(deviceAuthorizations.expiresAt, sql`${sql.placeholder('now')}::timestamptz`),
)
const consumedNow = { consumedAt: sql`${sql.placeholder('now')}::timestamptz` }

/** Consumes an approved code: of several concurrent polls one gets the row back. */
const consumeDeviceCode = lazyPrepared((db) =>
  db
    .update(deviceAuthorizations)
    .set(consumedNow)
    .where(isRedeemable)
    .returning({ userCode: deviceAuthorizations.userCode })
    .prepare('consume_device_code'),
)

/** Like consumeDeviceCode, and founds the promised refresh family in the same statement. */
const consumeDeviceCodeForFamily = lazyPrepared((db) => {
  const consumed = db.$with('consumed').as(
    db.update(deviceAuthorizations).set(consumedNow).where(isRedeemable).returning({
      familyId: deviceAuthorizations.familyId,
      clientId: deviceAuthorizations.clientId,
      userId: deviceAuthorizations.userId,
      scope: deviceAuthorizations.scope,
      authTime: deviceAuthorizations.authTime,
      amr: deviceAuthorizations.amr,
      sid: deviceAuthorizations.sid,
      userAgent: deviceAuthorizations.userAgent,
      address: deviceAuthorizations.address,
    }),
  )
  return db
    .with(consumed)
    .insert(refreshFamilies)
    .select(db.select(foundedFamily(consumed)).from(consumed))
    .returning({ id: refreshFamilies.id })
    .prepare('consume_device_code_for_family')
})

const isTooSoon = sql`${deviceAuthorizations.polledAt} is not null and
  ${deviceAuthorizations.polledAt} + make_interval(secs => ${deviceAuthorizations.intervalSeconds}) > ${sql.placeholder('now')}::timestamptz`

/** Records a poll. Returns whether it came too early; the interval then grows (D64). The first poll is free. */
const notePoll = lazyPrepared((db) =>
  db
    .update(deviceAuthorizations)
    .set({
      polledAt: sql`${sql.placeholder('now')}::timestamptz`,
      intervalSeconds: sql`${deviceAuthorizations.intervalSeconds} + case when ${isTooSoon} then ${sql.raw(String(SLOW_DOWN_SECONDS))} else 0 end`,
    })
    .where(eq(deviceAuthorizations.deviceCodeHash, sql.placeholder('deviceCodeHash')))
    .returning({ intervalSeconds: deviceAuthorizations.intervalSeconds })
    .prepare('note_device_poll'),
)

const poll = (error: string, description: string): OAuthError => new OAuthError(400, error, description)

/** Answers a poll while the request is pending. */
async function refusePending(deps: Deps, device: Device): Promise<never> {
  const { deviceCodeHash, intervalSeconds } = device
  const [noted] = await notePoll(deps.db).execute({ deviceCodeHash, now: deps.now().toISOString() })
  if (noted && noted.intervalSeconds > intervalSeconds)
    throw poll('slow_down', `Polled too soon: wait ${noted.intervalSeconds} seconds from now on`)
  throw poll('authorization_pending', 'The user has not decided yet')
}

/**
 * Answers the poll of a device. A decision is reported at once, however fast the device polls; only a pending request is
 * slowed down (B §3, D64).
 */
export const redeemDeviceCode: RedeemGrant = async ({ deps, form, clientId, admit }) => {
  const time = deps.now()
  const now = time.toISOString()
  const deviceCodeHash = createHash('sha256')
    .update(form.get('device_code') ?? '')
    .digest()
  const [row] = await deviceOfClient(deps.db).execute({ clientId, deviceCodeHash, now })
  const client = admit(row)
  requireParameter(form, 'device_code')

  const { device, user, withdrawnProduct } = row ?? {}
  if (!device) throw invalidGrant('The device code is not valid')
  if (device.decision === 'approved' && user && device.amr !== null)
    requireRedeemable(client, user, device.amr, withdrawnProduct ?? null)
  if (device.consumedAt !== null) throw invalidGrant('The device code was used')
  if (device.expiresAt <= time) throw poll('expired_token', 'The device code has expired')
  if (device.decision === 'denied') throw poll('access_denied', 'The user denied the request')
  const { userId, authTime, amr, sid } = device
  if (!user || userId === null || authTime === null || amr === null || sid === null) return refusePending(deps, device)

  const refreshExpiresAt = new Date(time.getTime() + REFRESH_MS).toISOString()
  const consumed =
    device.familyId === null
      ? await consumeDeviceCode(deps.db).execute({ deviceCodeHash, now })
      : await consumeDeviceCodeForFamily(deps.db).execute({ deviceCodeHash, now, refreshExpiresAt })
  if (consumed.length === 0) throw invalidGrant('The device code was used')
  const refresh = device.familyId === null ? undefined : { familyId: device.familyId, generation: 1 }
  return issueTokens(
    deps,
    client,
    { userId, scope: device.scope, authTime, amr, sid, joined: user.joined },
    { refresh },
  )
}
