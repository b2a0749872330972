import postgres from 'postgres'

/**
 * Returns the names of a database's tables, sorted. A table outside of the schema public has its schema before its name. Partitions
 * are left out: they belong to their parent.
 */
export async function tableNames(databaseUrl: string): Promise<string[]> {
  const sql = postgres(databaseUrl, { max: 1, onnotice: () => {} })
  try {
    const rows = await sql<{ name: string }[]>`
      select concat(nullif(n.nspname, 'public') || '.', c.relname) as name
      from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where c.relkind in ('r', 'p') and not c.relispartition
        and n.nspname <> 'information_schema' and n.nspname !~ '^pg_'`
    return rows.map(({ name }) => name).toSorted()
  } finally {
    await sql.end({ timeout: 5 })
  }
}
