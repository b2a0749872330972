import type { TestIdp } from './start.ts'

/** Every row of every table. What goes on after an answer is over first. */
export async function readEverything({ deps }: TestIdp): Promise<Record<string, unknown[]>> {
  await deps.afterAnswer.settled()
  const tables = await deps.db.execute<{ name: string }>(
    `select table_name as name from information_schema.tables where table_schema = 'public'`,
  )
  const contents = await Promise.all(
    tables.map(async ({ name }) => {
      const rows = await deps.db.execute<{ row: unknown }>(`select to_jsonb(t) as row from "${name}" t order by 1`)
      return [name, rows.map(({ row }) => row)] as const
    }),
  )
  return Object.fromEntries(contents)
}
