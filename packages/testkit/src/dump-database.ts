import postgres from 'postgres'

/**
 * Everything in a database as text, for comparison: each table, index and sequence of all its schemas, with its columns and rows.
 */
export async function dumpDatabase(databaseUrl: string): Promise<string> {
  const sql = postgres(databaseUrl, { max: 1, onnotice: () => {} })
  try {
    return await sql.begin('isolation level repeatable read', async (tx) => {
      const relations = await tx<{ name: string; kind: string; columns: string }[]>`
        select c.oid::regclass::text as name, relkind as kind,
          (select string_agg(attname || ' ' || atttypid::regtype, ', ' order by attnum) from pg_attribute a
            where a.attrelid = c.oid and attnum > 0 and not attisdropped) as columns
        from pg_class c join pg_namespace n on n.oid = relnamespace
        where nspname !~ '^(pg_|information_schema$)' order by n.nspname, relname`
      const schemas = await tx<{ nspname: string }[]>`select nspname from pg_namespace order by nspname`
      const parts = [schemas.map(({ nspname }) => nspname).join('\n')]
      for (const { name, kind, columns } of relations) {
        parts.push(`${kind} ${name} (${columns})`)
        if (kind !== 'r' && kind !== 'S') continue
        const rows = await tx.unsafe<Record<string, unknown>[]>(`select * from ${name}`)
        parts.push(...rows.map((row) => JSON.stringify(row)).toSorted())
      }
      return parts.join('\n')
    })
  } finally {
    await sql.end({ timeout: 5 })
  }
}
