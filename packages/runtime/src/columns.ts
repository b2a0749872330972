import { customType, timestamp } from 'drizzle-orm/pg-core'

/** Bytes: hashes and what is sealed. */
export const bytea = customType<{ data: Buffer }>({ dataType: () => 'bytea' })

/** A moment with milliseconds, as the wire writes it. */
export const instant = (name: string) => timestamp(name, { withTimezone: true, precision: 3 })
