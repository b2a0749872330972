import { customType, timestamp } from 'drizzle-orm/pg-core'

/** Bytes: hashes and sealed values. */
export const bytea = customType<{ data: Buffer }>({ dataType: () => 'bytea' })

/** A timestamp with milliseconds, the precision of the wire format. */
export const instant = (name: string) => timestamp(name, { withTimezone: true, precision: 3 })
