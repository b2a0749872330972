import type { Db } from '@platform/runtime/database'
import { discardBefore } from '@platform/runtime/discard-rows'
import { firstIdAt, newId } from '@platform/runtime/new-id'
import { and, desc, eq } from 'drizzle-orm'
import { auditEvents } from './audit-table.ts'
import { type Command, UsageError } from './cli.ts'

const COUNT_MAX = 10_000
const DAY_MS = 86_400_000

/** Who made a change: the operator at the command line, the service by its own rules, a user, or a client. */
export type AuditActor = 'operator' | 'system' | `user:${string}` | `client:${string}`

interface AuditEvent {
  actor: AuditActor
  /** `thing.verb`, for example `client.disabled`. */
  action: string
  /** For example `user:<id>`, `client:<id>`, `organization:<id>`, `key:<id>`. */
  subject: string
  /** Never a secret. */
  details?: Record<string, unknown>
}

/** Records a change. `tx` is the transaction that makes the change, so that both commit or neither does. */
export async function recordAudit(
  tx: Pick<Db, 'insert'>,
  time: Date,
  { actor, action, subject, details = {} }: AuditEvent,
): Promise<void> {
  await tx.insert(auditEvents).values({ id: newId(), at: time, actor, action, subject, details })
}

/** Deletes events older than `keptDays`; 0 keeps all of them. */
export async function discardAuditEvents({ db, now }: { db: Db; now: () => Date }, keptDays: number): Promise<void> {
  if (keptDays > 0) await discardBefore(db, auditEvents.id, firstIdAt(new Date(now().getTime() - keptDays * DAY_MS)))
}

/** `audit tail`: prints the latest events. */
export const auditCommand: Command<{ db: Db }> = {
  name: 'audit tail',
  usage: 'audit tail [--count NUMBER] [--subject SUBJECT] [--actor ACTOR]',
  summary:
    'show the last changes, oldest first: 50, or --count; of one subject or by one actor alone where it is named',
  options: { count: 'value', subject: 'value', actor: 'value' },
  async run({ db }, args) {
    const count = Number(args.option('count') ?? '50')
    if (!Number.isInteger(count) || count < 1 || count > COUNT_MAX)
      throw new UsageError(`--count is a number from 1 to ${COUNT_MAX}`)
    const [subject, actor] = [args.option('subject'), args.option('actor')]
    const newest = await db
      .select()
      .from(auditEvents)
      .where(
        and(
          subject === undefined ? undefined : eq(auditEvents.subject, subject),
          actor === undefined ? undefined : eq(auditEvents.actor, actor),
        ),
      )
      .orderBy(desc(auditEvents.id))
      .limit(count)
    const events = newest.toReversed()
    const lines = events.map(({ at: time, actor, action, subject, details }) => {
      const more = Object.keys(details).length === 0 ? '' : `  ${JSON.stringify(details)}`
      return `${time.toISOString()}  ${actor}  ${action}  ${subject}${more}`
    })
    return { json: events, text: lines.join('\n') }
  },
}
