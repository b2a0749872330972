import { bigserial, index, integer, pgTable, primaryKey, text, uuid } from 'drizzle-orm/pg-core'

/** A line printed by a Function, in partitions of a day. The id is a UUIDv7 of its time, so a partition is a range of ids. */
export const runtimeLogs = pgTable(
  'runtime_logs',
  {
    id: uuid().notNull(),
    /** No foreign keys: logs never block changes of their deployment, and are dropped with their day. */
    applicationId: uuid('application_id').notNull(),
    deploymentId: uuid('deployment_id').notNull(),
    functionId: uuid('function_id').notNull(),
    functionName: text('function_name').notNull(),
    slot: integer().notNull(),
    requestId: text('request_id'),
    level: text().$type<'DEBUG' | 'INFO' | 'WARN' | 'ERROR'>().notNull(),
    message: text().notNull(),
    /** In the order in which an application's lines were stored, which is the order of streams. */
    number: bigserial({ mode: 'number' }).notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.applicationId, t.id] }),
    index('runtime_logs_of_deployment').on(t.deploymentId, t.id),
    index('runtime_logs_in_order').on(t.applicationId, t.number),
    index('runtime_logs_of_request').on(t.applicationId, t.requestId, t.id),
  ],
)
