import { createHash, timingSafeEqual } from 'node:crypto'
import { and, eq, getTableColumns, gt, isNull, sql } from 'drizzle-orm'
import { lazyPrepared } from '@platform/runtime/lazy-prepared'
import type { Deps } from '../../deps.ts'
import { requireParameter } from '../../http/body.ts'
import { productWithdrawals, users } from '../accounts/table.ts'
import { clientColumns, liveSecretHashes } from '../clients/client.ts'
import { clients } from '../clients/table.ts'
import { authorizationCodes } from '../grants/table.ts'
import { foundedFamily, isReplay, revokeFamily } from '../refresh/families.ts'
import { refreshFamilies } from '../refresh/table.ts'
import type { RedeemGrant } from './grant-request.ts'
import { invalidGrant, issueTokens, REFRESH_MS, requireRedeemable } from './issue-tokens.ts'
import { accountColumns, isClientOfRequest, isWithdrawn } from './redeemable.ts'

type Code = typeof authorizationCodes.$inferSelect

const codeOfClient = lazyPrepared((db) =>
  db
    .select({
      client: clientColumns,
      secretHashes: liveSecretHashes,
      code: getTableColumns(authorizationCodes),
      user: accountColumns,
      withdrawnProduct: productWithdrawals.product,
    })
    .from(clients)
    .leftJoin(
      authorizationCodes,
      and(eq(authorizationCodes.clientId, clients.id), eq(authorizationCodes.codeHash, sql.placeholder('codeHash'))),
    )
    .leftJoin(users, eq(users.id, authorizationCodes.userId))
    .leftJoin(productWithdrawals, isWithdrawn)
    .where(isClientOfRequest)
    .prepare('code_of_client'),
)

const isLive = and(
  eq(authorizationCodes.codeHash, sql.placeholder('codeHash')),
  isNull(authorizationCodes.consumedAt),
  gt(authorizationCodes.expiresAt, sql`${sql.placeholder('now')}::timestamptz`),
)
const consumedNow = { consumedAt: sql`${sql.placeholder('now')}::timestamptz` }

/** Consumes a code: of several concurrent calls one gets the row back (B §2). */
const consumeCode = lazyPrepared((db) =>
  db
    .update(authorizationCodes)
    .set(consumedNow)
    .where(isLive)
    .returning({ codeHash: authorizationCodes.codeHash })
    .prepare('consume_code'),
)

/** Like consumeCode, and founds the promised refresh family in the same statement. */
const consumeCodeForFamily = lazyPrepared((db) => {
  const consumed = db.$with('consumed').as(
    db.update(authorizationCodes).set(consumedNow).where(isLive).returning({
      familyId: authorizationCodes.familyId,
      clientId: authorizationCodes.clientId,
      userId: authorizationCodes.userId,
      scope: authorizationCodes.scope,
      authTime: authorizationCodes.authTime,
      amr: authorizationCodes.amr,
      sid: authorizationCodes.sid,
      userAgent: authorizationCodes.userAgent,
      address: authorizationCodes.address,
    }),
  )
  return db
    .with(consumed)
    .insert(refreshFamilies)
    .select(db.select(foundedFamily(consumed)).from(consumed))
    .returning({ id: refreshFamilies.id })
    .prepare('consume_code_for_family')
})

/** PKCE (RFC 7636 §4.6): a challenge needs the right verifier; without a challenge there must be no verifier. */
function isVerified({ codeChallenge }: Code, verifier: string | undefined): boolean {
  if (codeChallenge === null || verifier === undefined) return codeChallenge === null && verifier === undefined
  if (!/^[\w.~-]{43,128}$/.test(verifier)) return false
  const derived = createHash('sha256').update(verifier).digest('base64url')
  return derived.length === codeChallenge.length && timingSafeEqual(Buffer.from(derived), Buffer.from(codeChallenge))
}

/** Ends what a code founded if it is used again so late that somebody must have copied it (D61). */
async function revokeOnReplay(deps: Deps, code: Code): Promise<void> {
  if (code.familyId === null || code.consumedAt === null || !isReplay(code.consumedAt, deps.now())) return
  await revokeFamily(
    deps,
    { familyId: code.familyId, clientId: code.clientId },
    'system',
    'authorization code replayed',
  )
}

/**
 * Redeems an authorization code. Everything is checked first and the code consumed last: a refused request leaves the code
 * unused (B §3, D60).
 */
export const redeemAuthorizationCode: RedeemGrant = async ({ deps, form, clientId, admit }) => {
  const time = deps.now()
  const codeHash = createHash('sha256')
    .update(form.get('code') ?? '')
    .digest()
  const [row] = await codeOfClient(deps.db).execute({ clientId, codeHash, now: time.toISOString() })
  const client = admit(row)
  requireParameter(form, 'code')
  const redirectUri = requireParameter(form, 'redirect_uri')

  const { code, user, withdrawnProduct } = row ?? {}
  if (!code || !user || code.redirectUri !== redirectUri || !isVerified(code, form.get('code_verifier')))
    throw invalidGrant('The code is not valid for this request')
  requireRedeemable(client, user, code.amr, withdrawnProduct ?? null)

  const now = time.toISOString()
  const consumed =
    code.familyId === null
      ? await consumeCode(deps.db).execute({ codeHash, now })
      : await consumeCodeForFamily(deps.db).execute({
          codeHash,
          now,
          refreshExpiresAt: new Date(time.getTime() + REFRESH_MS).toISOString(),
        })
  if (consumed.length === 0) {
    await revokeOnReplay(deps, code)
    throw invalidGrant('The code is expired or was used')
  }
  const refresh = code.familyId === null ? undefined : { familyId: code.familyId, generation: 1 }
  return issueTokens(deps, client, { ...code, joined: user.joined }, { nonce: code.nonce, refresh })
}
