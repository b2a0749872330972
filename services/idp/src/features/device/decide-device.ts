import { recordAudit } from '@platform/service/audit'
import { and, eq, gt, isNull } from 'drizzle-orm'
import type { Deps } from '../../deps.ts'
import type { Session } from '../../site/session.ts'
import { admitInWindow, attemptKey, takeBackAttempt } from '../attempts/attempts.ts'
import { pauseRefusal } from '../attempts/tell-pause.ts'
import type { Client } from '../clients/client.ts'
import { clients } from '../clients/table.ts'
import { deviceAuthorizations } from '../grants/table.ts'
import { sessions } from '../sessions/table.ts'

const GUESS_WINDOW_MS = 600_000
const GUESSES_OF_ACCOUNT = 5
const GUESSES_OF_NETWORK = 20

/** A device that waits for a user's decision. */
export interface PendingDevice {
  userCode: string
  client: Client
  /** False if a confidential client did not authenticate when it asked: somebody else may have. */
  isClientProven: boolean
  scopes: string[]
  /** The device's network, as rate limits count addresses, and its User-Agent. */
  address: string
  userAgent: string | null
  createdAt: Date
}

/**
 * The pending device of a user code in the form of readUserCode. Attempts are counted before the lookup, and wrong ones stay
 * counted: five in ten minutes for an account, twenty for a network. Throws a 429 beyond that, which says how long to wait.
 */
export async function findPendingDevice(
  deps: Deps,
  { userCode, session, address }: { userCode: string; session: Session; address: string },
): Promise<PendingDevice | undefined> {
  const byAccount = attemptKey('user-code', 'account', session.user.id)
  const byNetwork = attemptKey('user-code', 'network', address)
  for (const [key, max] of [
    [byAccount, GUESSES_OF_ACCOUNT],
    [byNetwork, GUESSES_OF_NETWORK],
  ] as const) {
    const admission = await admitInWindow(deps, key, { max, windowMs: GUESS_WINDOW_MS })
    if (admission.kind === 'paused') throw pauseRefusal(admission.waitSeconds, 'Too many codes that are not known')
  }
  const [row] = await deps.db
    .select({
      client: clients,
      isClientProven: deviceAuthorizations.isClientProven,
      scope: deviceAuthorizations.scope,
      address: deviceAuthorizations.address,
      userAgent: deviceAuthorizations.userAgent,
      createdAt: deviceAuthorizations.createdAt,
    })
    .from(deviceAuthorizations)
    .innerJoin(clients, and(eq(clients.id, deviceAuthorizations.clientId), isNull(clients.disabledAt)))
    .where(
      and(
        eq(deviceAuthorizations.userCode, userCode),
        isNull(deviceAuthorizations.decision),
        gt(deviceAuthorizations.expiresAt, deps.now()),
      ),
    )
  if (!row) return undefined
  await takeBackAttempt(deps, byAccount)
  await takeBackAttempt(deps, byNetwork)
  const { scope, ...device } = row
  return { userCode, ...device, scopes: scope.split(' ') }
}

/**
 * Records the user's decision, with its audit row; the first decision stands. `too-late` after another decision or the code's
 * expiry, `signed-out` if the session has ended meanwhile. Ending a session deletes its row first, so an approval either
 * waits for that and is not given, or is there to be ended too.
 */
export async function decideDevice(
  { db, now }: Pick<Deps, 'db' | 'now'>,
  { device, session, decision }: { device: PendingDevice; session: Session; decision: 'approved' | 'denied' },
): Promise<'decided' | 'too-late' | 'signed-out'> {
  const time = now()
  return db.transaction(async (tx) => {
    const [live] = await tx
      .select({ id: sessions.id })
      .from(sessions)
      .where(eq(sessions.id, session.id))
      .for('key share')
    if (!live) return 'signed-out'
    const decided = await tx
      .update(deviceAuthorizations)
      .set({ decision, userId: session.user.id, authTime: session.authTime, amr: session.amr, sid: live.id })
      .where(
        and(
          eq(deviceAuthorizations.userCode, device.userCode),
          isNull(deviceAuthorizations.decision),
          gt(deviceAuthorizations.expiresAt, time),
        ),
      )
      .returning({ userCode: deviceAuthorizations.userCode })
    if (decided.length === 0) return 'too-late'
    await recordAudit(tx, time, {
      actor: `user:${session.user.id}`,
      action: `device.${decision}`,
      subject: `client:${device.client.id}`,
      details: { scopes: device.scopes, address: device.address },
    })
    return 'decided'
  })
}
