import { randomBytes, randomUUID } from 'node:crypto'
import postgres from 'postgres'

/** As the services set it: a longer wait fails the request. */
const STATEMENT_TIMEOUT_MS = 5_000

interface Column {
  name: string
  type: string
  isRequired: boolean
  hasDefault: boolean
}

interface Table {
  name: string
  columns: Column[]
  key: string[]
  /** By column: the table and column that it refers to. */
  references: Map<string, { table: string; column: string }>
  /** By column: the values that a check constraint allows. */
  choices: Map<string, string>
}

/** A column of another row of the same family: `{ of: 'applications', column: 'id' }`. */
type Value = string | null | { of: string; column: string }
/** Values that the catalog cannot provide, by table: those of columns that one check constraint ties together. */
export type Exceptions = Readonly<Record<string, Readonly<Record<string, Value>>>>

type Row = Map<string, string | null>

/** Reads the current tables from the catalog, referenced tables first. */
async function readTables(sql: postgres.Sql): Promise<Table[]> {
  const [columns, constraints] = await Promise.all([
    sql<(Column & { table: string })[]>`
      select c.relname as table, a.attname as name, format_type(a.atttypid, a.atttypmod) as type,
        a.attnotnull as "isRequired", a.atthasdef or a.attidentity <> '' as "hasDefault"
      from pg_class c join pg_attribute a on a.attrelid = c.oid
      where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
        and a.attnum > 0 and not a.attisdropped
      order by c.relname, a.attnum`,
    sql<{ table: string; kind: string; names: string[]; target: string; targets: string[]; text: string }[]>`
      select c.relname as table, o.contype as kind, t.relname as target, pg_get_constraintdef(o.oid) as text,
        array(select a.attname::text from unnest(o.conkey) k join pg_attribute a on a.attrelid = o.conrelid and a.attnum = k) as names,
        array(select a.attname::text from unnest(o.confkey) k join pg_attribute a on a.attrelid = o.confrelid and a.attnum = k) as targets
      from pg_constraint o join pg_class c on c.oid = o.conrelid left join pg_class t on t.oid = o.confrelid
      where c.relnamespace = 'public'::regnamespace and not c.relispartition`,
  ])
  const tables = [...Map.groupBy(columns, ({ table }) => table)].map(([name, ofTable]): Table => {
    const own = constraints.filter(({ table }) => table === name)
    const references = own
      .filter(({ kind }) => kind === 'f')
      .flatMap(({ names, target, targets }) =>
        names.map((column, n) => [column, { table: target, column: targets[n] ?? 'id' }] as const),
      )
    const choices = own
      .filter(({ kind, names }) => kind === 'c' && names.length === 1)
      .flatMap(({ names: [column = ''], text }) => {
        const [, first] = /= ANY \(+ARRAY\['([^']*)'/.exec(text) ?? []
        return first === undefined ? [] : [[column, first] as const]
      })
    return {
      name,
      columns: ofTable,
      key: own.find(({ kind }) => kind === 'p')?.names ?? [],
      references: new Map(references),
      choices: new Map(choices),
    }
  })
  const ordered: Table[] = []
  const place = (table: Table): void => {
    if (ordered.includes(table)) return
    for (const { table: target } of table.references.values()) {
      const parent = tables.find(({ name }) => name === target)
      if (parent && parent !== table) place(parent)
    }
    ordered.push(table)
  }
  for (const table of tables) place(table)
  return ordered
}

let made = 0

/** A unique value, as text that its type accepts. */
function valueOf(type: string): string {
  made += 1
  if (type === 'uuid') return randomUUID()
  if (type === 'boolean') return 'false'
  if (type === 'bytea') return `\\x${randomBytes(32).toString('hex')}`
  if (type.startsWith('json')) return '{}'
  if (type.endsWith('[]')) return '{}'
  if (type === 'smallint') return String(200 + (made % 300))
  if (/^(integer|bigint|numeric)/.test(type)) return String(made)
  if (type.startsWith('timestamp')) return new Date(Date.now() + made * 1_000).toISOString()
  if (/^(text|character varying)/.test(type)) return `${made.toString(36)}x${randomBytes(3).toString('hex')}`
  throw new Error(`No value for a column of type ${type}: say how one is made in release-workload.ts`)
}

const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`
const literal = (value: string | null): string => (value === null ? 'null' : `'${value.replaceAll("'", "''")}'`)

/** One row for every table, each referring to rows of the same family. */
function newFamily(tables: readonly Table[], exceptions: Exceptions): Map<Table, Row> {
  const family = new Map<Table, Row>()
  const member = (table: string, column: string): string | null =>
    [...family].find(([{ name }]) => name === table)?.[1].get(column) ?? null
  for (const table of tables) {
    const options = exceptions[table.name] ?? {}
    const row: Row = new Map()
    for (const { name, type, isRequired, hasDefault } of table.columns) {
      const exception = options[name]
      const reference = table.references.get(name)
      if (exception !== undefined)
        row.set(name, typeof exception === 'object' && exception ? member(exception.of, exception.column) : exception)
      else if (reference) row.set(name, isRequired ? member(reference.table, reference.column) : null)
      else if (!hasDefault) row.set(name, table.choices.get(name) ?? valueOf(type))
    }
    family.set(table, row)
  }
  return family
}

const columnList = (names: Iterable<string>): string => [...names].map(quoted).join(', ')

async function insertFamily(sql: postgres.Sql, family: ReadonlyMap<Table, Row>): Promise<void> {
  await sql.begin(async (tx) => {
    for (const [{ name }, row] of family)
      await tx.unsafe(
        `insert into ${quoted(name)} (${columnList(row.keys())}) values (${[...row.values()].map(literal).join(', ')})`,
      )
  })
}

/** Reads with statements that are prepared once, as the services do, then updates and deletes. */
async function useFamily(sql: postgres.Sql, family: ReadonlyMap<Table, Row>, exceptions: Exceptions): Promise<void> {
  for (const [table, row] of family) {
    const columns = columnList(table.columns.map(({ name }) => name))
    // Without a key, or with a generated one, the row cannot be identified.
    if (table.key.length === 0 || !table.key.every((name) => row.has(name))) {
      await sql.unsafe(`select ${columns} from ${quoted(table.name)} limit 10`, [], { prepare: true })
      continue
    }
    const typeOf = (name: string) => table.columns.find((column) => column.name === name)?.type ?? 'text'
    // As text, since the driver would encode text for bytea as other bytes.
    const where = table.key.map((name, n) => `${quoted(name)} = $${n + 1}::text::${typeOf(name)}`).join(' and ')
    const key = table.key.map((name) => row.get(name) ?? null)
    const rows = await sql.unsafe(`select ${columns} from ${quoted(table.name)} where ${where}`, key, {
      prepare: true,
    })
    if (rows.length !== 1) throw new Error(`A row of ${table.name} that was written cannot be read`)
    const changeable = table.columns.filter(
      ({ name }) =>
        !table.key.includes(name) && !table.references.has(name) && !(name in (exceptions[table.name] ?? {})),
    )
    const changes = changeable
      .filter(({ name, hasDefault }) => !hasDefault && !table.choices.has(name))
      .map(({ name, type }) => `${quoted(name)} = ${literal(valueOf(type))}`)
    if (changes.length > 0)
      await sql.unsafe(`update ${quoted(table.name)} set ${changes.join(', ')} where ${where}`, key, { prepare: true })
  }
  for (const [{ name, key }, row] of [...family].toReversed())
    if (key.length > 0 && key.every((column) => row.has(column)))
      await sql.unsafe(
        `delete from ${quoted(name)} where ${key.map((column) => `${quoted(column)} = ${literal(row.get(column) ?? null)}`).join(' and ')}`,
      )
}

export interface Workload {
  /** Resolves once every worker has completed a round that began after the call. */
  rounds(): Promise<void>
  /** Stops the workers. Returns the failures, and the duration of the slowest round. */
  stop(): Promise<{ failures: string[]; slowestMs: number }>
}

/**
 * Uses a database like the release whose schema it has now: it keeps to these tables and columns, whatever happens to the
 * schema. Several workers insert rows of every table in one transaction, referenced ones first, then read, update and delete
 * them.
 */
export async function startWorkload(databaseUrl: string, exceptions: Exceptions, workers = 3): Promise<Workload> {
  const sql = postgres(databaseUrl, {
    max: workers,
    onnotice: () => {},
    connection: { statement_timeout: STATEMENT_TIMEOUT_MS, TimeZone: 'UTC' },
  })
  const tables = await readTables(sql)
  const failures: string[] = []
  let slowestMs = 0
  const over = new AbortController()
  const done: number[] = Array.from({ length: workers }, () => 0)
  const waiting: (() => void)[] = []

  async function work(n: number): Promise<void> {
    while (!over.signal.aborted) {
      const startedAt = performance.now()
      try {
        const family = newFamily(tables, exceptions)
        await insertFamily(sql, family)
        await useFamily(sql, family, exceptions)
      } catch (error) {
        failures.push(String(error))
      }
      slowestMs = Math.max(slowestMs, performance.now() - startedAt)
      done[n] = (done[n] ?? 0) + 1
      for (const wake of waiting.splice(0)) wake()
    }
  }
  const running = Array.from({ length: workers }, (_, n) => work(n))
  return {
    async rounds() {
      const wanted = done.map((count) => count + 2) // the one under way does not count
      while (!done.every((count, n) => count >= (wanted[n] ?? 0)))
        await new Promise<void>((resolve) => waiting.push(resolve))
    },
    async stop() {
      over.abort()
      await Promise.all(running)
      await sql.end({ timeout: 5 })
      return { failures, slowestMs }
    },
  }
}

/** Fills every table with `count` rows of the same kind. preparations: statements without which tables take no rows. */
export async function fillTables(
  databaseUrl: string,
  exceptions: Exceptions,
  count: number,
  preparations: readonly string[],
): Promise<void> {
  const sql = postgres(databaseUrl, { max: 1, onnotice: () => {} })
  try {
    for (const statement of preparations) await sql.unsafe(statement)
    const tables = await readTables(sql)
    for (let n = 0; n < count; n++) await insertFamily(sql, newFamily(tables, exceptions))
  } finally {
    await sql.end({ timeout: 5 })
  }
}
