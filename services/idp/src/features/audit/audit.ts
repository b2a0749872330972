import type { Db } from '@platform/runtime/database'
import { newId } from '@platform/runtime/new-id'
import { auditEvents } from './table.ts'

/** Who made a change: the operator at the command line, the service by its own rules, a user, or a client. */
export type AuditActor = 'operator' | 'system' | `user:${string}` | `client:${string}`

interface AuditEvent {
  actor: AuditActor
  /** `thing.verb`, such as `client.disabled`. */
  action: string
  /** `user:<id>`, `client:<id>`, `family:<id>`, `key:<id>`. */
  subject: string
  /** Never a secret. */
  details?: Record<string, unknown>
}

/** Records a change; `tx` is the transaction that makes it, so that neither is there without the other. */
export async function recordAudit(
  tx: Pick<Db, 'insert'>,
  at: Date,
  { actor, action, subject, details = {} }: AuditEvent,
): Promise<void> {
  await tx.insert(auditEvents).values({ id: newId(), at, actor, action, subject, details })
}
