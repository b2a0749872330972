import { NotFound } from '@platform/errors/api-error'
import { type AuditActor, recordAudit } from '@platform/service/audit'
import { eq } from 'drizzle-orm'
import type { Deps } from '../../deps.ts'
import { clients } from '../clients/table.ts'
import { revokeFamiliesOf } from '../refresh/families.ts'

/** Disables a client and ends every grant it holds. Throws NotFound. Safe to repeat. */
export async function disableClient(
  { db, now }: Pick<Deps, 'db' | 'now'>,
  clientId: string,
  actor: AuditActor = 'operator',
): Promise<void> {
  const time = now()
  await db.transaction(async (tx) => {
    const [client] = await tx.select().from(clients).where(eq(clients.id, clientId)).for('update')
    if (!client) throw new NotFound('Client')
    if (client.disabledAt === null) {
      await tx.update(clients).set({ disabledAt: time, updatedAt: time }).where(eq(clients.id, clientId))
      await recordAudit(tx, time, { actor, action: 'client.disabled', subject: `client:${clientId}` })
    }
    await revokeFamiliesOf(tx, time, { clientId })
  })
}
