import { createHash, randomBytes } from 'node:crypto'
import { newId } from '@platform/runtime/new-id'
import { eq, sql } from 'drizzle-orm'
import { lazyPrepared } from '@platform/runtime/lazy-prepared'
import type { Deps } from '../../deps.ts'
import type { Session } from '../../site/session.ts'
import { authorizationCodes } from '../grants/table.ts'
import { sessions } from '../sessions/table.ts'
import type { AuthorizeRequest } from './checks.ts'

const CODE_MS = 600_000

/**
 * Inserts the code if its session still exists. Ending all access of a user deletes the sessions first and the codes after
 * them, so a code either waits for that and is not inserted, or is there to be ended too.
 */
const insertCode = lazyPrepared((db) => {
  const live = db.$with('live').as(
    db
      .select({ id: sessions.id })
      .from(sessions)
      .where(eq(sessions.id, sql.placeholder('sid')))
      .for('key share'),
  )
  return db
    .with(live)
    .insert(authorizationCodes)
    .select(
      db
        .select({
          codeHash: sql<Buffer>`${sql.placeholder('codeHash')}::bytea`.as('code_hash'),
          clientId: sql<string>`${sql.placeholder('clientId')}::uuid`.as('client_id'),
          userId: sql<string>`${sql.placeholder('userId')}::uuid`.as('user_id'),
          redirectUri: sql<string>`${sql.placeholder('redirectUri')}::text`.as('redirect_uri'),
          scope: sql<string>`${sql.placeholder('scope')}::text`.as('scope'),
          nonce: sql<string | null>`${sql.placeholder('nonce')}::text`.as('nonce'),
          codeChallenge: sql<string | null>`${sql.placeholder('codeChallenge')}::text`.as('code_challenge'),
          authTime: sql<Date>`${sql.placeholder('authTime')}::timestamptz`.as('auth_time'),
          amr: sql<string>`${sql.placeholder('amr')}::text`.as('amr'),
          sid: sql<string>`${live.id}`.as('sid'),
          familyId: sql<string | null>`${sql.placeholder('familyId')}::uuid`.as('family_id'),
          userAgent: sql<string | null>`${sql.placeholder('userAgent')}::text`.as('user_agent'),
          address: sql<string>`${sql.placeholder('address')}::text`.as('address'),
          expiresAt: sql<Date>`${sql.placeholder('expiresAt')}::timestamptz`.as('expires_at'),
          consumedAt: sql<Date | null>`null::timestamptz`.as('consumed_at'),
        })
        .from(live),
    )
    .returning({ sid: authorizationCodes.sid })
    .prepare('insert_code')
})

/**
 * Issues a code for a request that passed every check: 256 random bits, valid for 10 minutes and one use (B §2), stored as a
 * hash. The user's answer to this request is used up, so the same request asks again. Returns undefined if the session has
 * ended meanwhile.
 */
export async function issueCode(
  { db, now }: Deps,
  request: AuthorizeRequest,
  session: Session,
  browser: { userAgent: string | null; address: string },
): Promise<string | undefined> {
  const code = randomBytes(32).toString('base64url')
  if (session.answeredRequest !== null)
    await db.update(sessions).set({ answeredRequest: null, answer: null }).where(eq(sessions.id, session.id))
  const inserted = await insertCode(db).execute({
    codeHash: createHash('sha256').update(code).digest(),
    clientId: request.client.id,
    userId: session.user.id,
    redirectUri: request.redirectUri,
    scope: request.scopes.join(' '),
    nonce: request.nonce ?? null,
    codeChallenge: request.codeChallenge ?? null,
    authTime: session.authTime.toISOString(),
    amr: session.amr,
    sid: session.id,
    familyId: request.scopes.includes('offline_access') ? newId() : null,
    ...browser,
    expiresAt: new Date(now().getTime() + CODE_MS).toISOString(),
  })
  return inserted.length > 0 ? code : undefined
}
