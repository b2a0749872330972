import postgres from 'postgres'

/**
 * The schema of a database as text, for comparison and review: tables with their columns and constraints, indexes, triggers,
 * functions and types of the schema public, each sorted by name. Partitions are omitted, since their parent describes them.
 * Not meant to be run.
 */
export async function schemaText(databaseUrl: string): Promise<string> {
  const sql = postgres(databaseUrl, { max: 1, onnotice: () => {} })
  try {
    const [columns, constraints, rest] = await Promise.all([
      sql<{ table: string; partitioned: string | null; column: string }[]>`
        select c.relname as table, case when c.relkind = 'p' then pg_get_partkeydef(c.oid) end as partitioned,
          concat_ws(' ', quote_ident(a.attname), format_type(a.atttypid, a.atttypmod), case when a.attnotnull then 'not null' end,
            case when a.attidentity <> '' then 'identity' when a.attgenerated <> '' then 'generated' end,
            'default ' || pg_get_expr(d.adbin, d.adrelid)) as column
        from pg_class c join pg_attribute a on a.attrelid = c.oid
        left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
        where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
          and a.attnum > 0 and not a.attisdropped
        order by c.relname collate "C", a.attname collate "C"`,
      sql<{ table: string; text: string }[]>`
        select c.relname as table, format('constraint %I %s', o.conname, pg_get_constraintdef(o.oid)) as text
        from pg_constraint o join pg_class c on c.oid = o.conrelid
        where c.relnamespace = 'public'::regnamespace and not c.relispartition and o.contype in ('p', 'u', 'f', 'c', 'x')
        order by o.conname collate "C"`,
      sql<{ text: string }[]>`
        select text from (
          select 1 as part, i.relname as name, pg_get_indexdef(i.oid) as text
          from pg_class i join pg_index x on x.indexrelid = i.oid join pg_class c on c.oid = x.indrelid
          where c.relnamespace = 'public'::regnamespace and not c.relispartition
            and not exists (select from pg_constraint o where o.conindid = i.oid)
          union all
          select 2, p.proname, pg_get_functiondef(p.oid) from pg_proc p where p.pronamespace = 'public'::regnamespace
          union all
          select 3, t.tgname, pg_get_triggerdef(t.oid) from pg_trigger t join pg_class c on c.oid = t.tgrelid
          where c.relnamespace = 'public'::regnamespace and not c.relispartition and not t.tgisinternal
          union all
          select 4, t.typname, format('create type %I as enum (%s)', t.typname, string_agg(quote_literal(e.enumlabel), ', ' order by e.enumsortorder))
          from pg_type t join pg_enum e on e.enumtypid = t.oid where t.typnamespace = 'public'::regnamespace group by t.typname
          union all
          select 5, c.relname, format('create view %I as %s', c.relname, pg_get_viewdef(c.oid)) from pg_class c
          where c.relnamespace = 'public'::regnamespace and c.relkind in ('v', 'm')
        ) parts order by part, name collate "C", text collate "C"`,
    ])
    const tables = [...Map.groupBy(columns, ({ table }) => table)].map(([table, ofTable]) => {
      const lines = [
        ...ofTable.map(({ column }) => column),
        ...constraints.filter((constraint) => constraint.table === table).map(({ text }) => text),
      ]
      const partitioned = ofTable[0]?.partitioned
      return `create table ${table} (\n  ${lines.join(',\n  ')}\n)${partitioned ? ` partition by ${partitioned}` : ''}`
    })
    return `${[...tables, ...rest.map(({ text }) => text.trimEnd())].join(';\n\n')};\n`
  } finally {
    await sql.end({ timeout: 5 })
  }
}
