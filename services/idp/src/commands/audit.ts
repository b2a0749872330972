import { type Command, UsageError } from '@platform/service/cli'
import { and, desc, eq } from 'drizzle-orm'
import type { Deps } from '../deps.ts'
import { auditEvents } from '../features/audit/table.ts'

const COUNT_MAX = 10_000

export const auditCommand: Command<Deps> = {
  name: 'audit tail',
  usage: 'audit tail [--count NUMBER] [--subject SUBJECT] [--actor ACTOR]',
  summary: 'show what changed last, oldest first: 50 changes, or as many as asked for; of one user, client or key',
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
      // The ids are in the order of time.
      .orderBy(desc(auditEvents.id))
      .limit(count)
    const events = newest.toReversed()
    const lines = events.map(({ at, actor, action, subject, details }) => {
      const more = Object.keys(details).length === 0 ? '' : `  ${JSON.stringify(details)}`
      return `${at.toISOString()}  ${actor}  ${action}  ${subject}${more}`
    })
    return { json: events, text: lines.join('\n') }
  },
}
