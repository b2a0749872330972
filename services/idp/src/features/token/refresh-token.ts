import { and, eq, gt, isNull, sql } from 'drizzle-orm'
import { OAuthError } from '@platform/errors/api-error'
import type { Deps } from '../../deps.ts'
import { requireParameter } from '../../http/body.ts'
import { keysAsRows, batchPerTick } from '@platform/runtime/batch-per-tick'
import { lazyPrepared } from '@platform/runtime/lazy-prepared'
import { productWithdrawals, users } from '../accounts/table.ts'
import { clientColumns, liveSecretHashes } from '../clients/client.ts'
import { clients } from '../clients/table.ts'
import { isReplay, retiredAt, revokeFamily } from '../refresh/families.ts'
import { readRefreshToken } from '../refresh/refresh-token.ts'
import { refreshFamilies } from '../refresh/table.ts'
import type { RedeemGrant } from './grant-request.ts'
import { invalidGrant, issueTokens, REFRESH_MS, requireRedeemable } from './issue-tokens.ts'
import { accountColumns, isWithdrawn } from './redeemable.ts'

/** Columns of a family that a refresh needs. Each column costs time to decode, at the busiest endpoint. */
const familyColumns = {
  id: refreshFamilies.id,
  clientId: refreshFamilies.clientId,
  userId: refreshFamilies.userId,
  scope: refreshFamilies.scope,
  authTime: refreshFamilies.authTime,
  amr: refreshFamilies.amr,
  sid: refreshFamilies.sid,
  generation: refreshFamilies.generation,
  expiresAt: refreshFamilies.expiresAt,
  rotatedAt: refreshFamilies.rotatedAt,
  rotatedBeforeAt: refreshFamilies.rotatedBeforeAt,
  revokedAt: refreshFamilies.revokedAt,
}
type Family = Pick<typeof refreshFamilies.$inferSelect, keyof typeof familyColumns>

/** Small, so that tokens of one batch are signed while the database works on the next. */
const BATCH_MAX = 16

interface Asked {
  clientId: string
  familyId: string | null
  /** ISO text. */
  now: string
}

const lookups = keysAsRows({ clientId: 'uuid', familyId: 'uuid' })

/** Reads the families for all refreshes of one event loop tick, in order of arrival. */
const findFamily = lazyPrepared((db) => {
  const query = db
    .select({
      n: lookups.n,
      client: clientColumns,
      secretHashes: liveSecretHashes,
      family: familyColumns,
      user: accountColumns,
      withdrawnProduct: productWithdrawals.product,
    })
    .from(lookups.from)
    .innerJoin(clients, and(eq(clients.id, lookups.columns.clientId), isNull(clients.disabledAt)))
    .leftJoin(
      refreshFamilies,
      and(eq(refreshFamilies.clientId, clients.id), eq(refreshFamilies.id, lookups.columns.familyId)),
    )
    .leftJoin(users, eq(users.id, refreshFamilies.userId))
    .leftJoin(productWithdrawals, isWithdrawn)
    .prepare('families_of_clients')
  return batchPerTick(
    async (keys: readonly Asked[]) =>
      lookups.inOrder(keys, await query.execute({ ...lookups.parameters(keys), now: keys[0]?.now ?? '' })),
    BATCH_MAX,
  )
})

interface Rotation {
  familyId: string
  generation: number
  at: Date
}

const rotated = keysAsRows({ familyId: 'uuid', generation: 'int' })

/**
 * Compare-and-swap on the generation: of several holders of the same token, one advances the family (B §2). This holds within
 * a tick as well: the statement updates a row once, and says for which request.
 */
const rotate = lazyPrepared((db) => {
  const query = db
    .update(refreshFamilies)
    .set({
      generation: sql`${refreshFamilies.generation} + 1`,
      expiresAt: sql`${sql.placeholder('expiresAt')}::timestamptz`,
      rotatedAt: sql`${sql.placeholder('now')}::timestamptz`,
      rotatedBeforeAt: sql`${refreshFamilies.rotatedAt}`,
    })
    .from(rotated.from)
    .where(
      and(
        eq(refreshFamilies.id, rotated.columns.familyId),
        eq(refreshFamilies.generation, rotated.columns.generation),
        isNull(refreshFamilies.revokedAt),
        gt(refreshFamilies.expiresAt, sql`${sql.placeholder('now')}::timestamptz`),
      ),
    )
    .returning({ n: rotated.n, generation: refreshFamilies.generation })
    .prepare('rotate_families')
  return batchPerTick(async (rotations: readonly Rotation[]) => {
    const time = rotations[0]?.at ?? new Date()
    // Ordered by id, so that two batches never deadlock.
    const order = rotations.toSorted((a, b) => (a.familyId < b.familyId ? -1 : 1))
    const rows = await query.execute({
      ...rotated.parameters(order),
      now: time.toISOString(),
      expiresAt: new Date(time.getTime() + REFRESH_MS).toISOString(),
    })
    const generations = new Map(rotated.inOrder(order, rows).map((row, i) => [order[i], row?.generation]))
    return rotations.map((rotation) => generations.get(rotation))
  }, BATCH_MAX)
})

/** Ends the family if an old token of it is used again so late that somebody must have copied it (D61). */
async function revokeOnReplay(deps: Deps, family: Family, generation: number): Promise<void> {
  const retired = retiredAt(family, generation)
  if (retired && family.revokedAt === null && isReplay(retired, deps.now()))
    await revokeFamily(deps, { familyId: family.id, clientId: family.clientId }, 'system', 'refresh token replayed')
}

/** The scope of the answer: the granted one, or the part of it that the request names (D67). */
function narrowedScope(family: Family, requested: string | undefined): string {
  if (requested === undefined) return family.scope
  const granted = family.scope.split(' ')
  const wanted = new Set(requested.split(' ').filter((name) => name !== ''))
  if (wanted.size === 0) throw new OAuthError(400, 'invalid_scope', 'The scope names nothing')
  for (const name of wanted)
    if (!granted.includes(name)) throw new OAuthError(400, 'invalid_scope', 'The scope is wider than what was granted')
  return granted.filter((name) => wanted.has(name)).join(' ')
}

/**
 * Rotates a refresh token. Only tokens that this service wrote reach the database, and everything is checked before the one
 * statement that retires the token (B §3, D60, D61, D67).
 */
export const redeemRefreshToken: RedeemGrant = async ({ deps, form, clientId, admit }) => {
  const time = deps.now()
  const token = readRefreshToken(deps.refreshKeys, form.get('refresh_token') ?? '')
  const familyId = token?.familyId ?? null
  const found = await findFamily(deps.db)({ clientId, familyId, now: time.toISOString() })
  const client = admit(found)
  requireParameter(form, 'refresh_token')

  const { family, user, withdrawnProduct } = found ?? {}
  if (!token || !family || !user) throw invalidGrant('The refresh token is not valid')
  requireRedeemable(client, user, family.amr, withdrawnProduct ?? null)
  if (family.revokedAt !== null || family.expiresAt <= time)
    throw invalidGrant('The refresh token is expired or revoked')
  if (token.generation !== family.generation) {
    await revokeOnReplay(deps, family, token.generation)
    throw invalidGrant('The refresh token was used')
  }
  const scope = narrowedScope(family, form.get('scope'))

  const generation = await rotate(deps.db)({ familyId: family.id, generation: token.generation, at: time })
  if (generation === undefined) throw invalidGrant('The refresh token was used')
  const refresh = { familyId: family.id, generation }
  return issueTokens(deps, client, { ...family, scope, joined: user.joined }, { refresh })
}
