import { NotFound } from '@platform/errors/api-error'
import { type AuditActor, recordAudit } from '@platform/service/audit'
import { eq } from 'drizzle-orm'
import type { Deps } from '../../deps.ts'
import { clients } from '../clients/table.ts'

/** Lets a disabled client in again; its ended grants stay ended. Throws NotFound. Safe to repeat. */
export async function enableClient(
  { db, now }: Pick<Deps, 'db' | 'now'>,
  clientId: string,
  actor: AuditActor = 'operator',
): Promise<void> {
  const time = now()
  await db.transaction(async (tx) => {
    const [client] = await tx.select().from(clients).where(eq(clients.id, clientId)).for('update')
    if (!client) throw new NotFound('Client')
    if (client.disabledAt === null) return
    await tx.update(clients).set({ disabledAt: null, updatedAt: time }).where(eq(clients.id, clientId))
    await recordAudit(tx, time, { actor, action: 'client.enabled', subject: `client:${clientId}` })
  })
}
