import { Conflict, NotFound } from '@platform/errors/api-error'
import { type AuditActor, recordAudit } from '@platform/service/audit'
import { eq } from 'drizzle-orm'
import type { Deps } from '../../deps.ts'
import { clients } from '../clients/table.ts'

/**
 * Deletes a client with its secrets, consents and grants. Throws NotFound, and Conflict unless the client is disabled, so that
 * its users notice first.
 */
export async function deleteClient(
  { db, now }: Pick<Deps, 'db' | 'now'>,
  clientId: string,
  actor: AuditActor = 'operator',
): Promise<void> {
  await db.transaction(async (tx) => {
    const [client] = await tx.select().from(clients).where(eq(clients.id, clientId)).for('update')
    if (!client) throw new NotFound('Client')
    if (client.disabledAt === null)
      throw new Conflict('Only a disabled client can be deleted: `client disable` comes first')
    await tx.delete(clients).where(eq(clients.id, clientId))
    await recordAudit(tx, now(), {
      actor,
      action: 'client.deleted',
      subject: `client:${clientId}`,
      details: { name: client.name },
    })
  })
}
