import { type SQL, sql } from 'drizzle-orm'

/** Larger batches are split. */
const BATCH_MAX = 200

interface Asked<K, V> {
  key: K
  answer: (value: V | undefined) => void
  fail: (error: unknown) => void
}

/**
 * Collects the keys requested in one tick of the event loop and loads them together. A busy process requests many keys per tick,
 * and one statement for twenty rows costs little more than one for a single row; in an idle process nothing changes. Nothing is
 * cached: a request in the next tick loads anew.
 *
 * batchMax: a tick with more keys uses several concurrent statements.
 * load: returns the values in the order of the keys, undefined for a key without one. If it fails, the whole batch fails.
 */
export function batchPerTick<K, V>(
  load: (keys: readonly K[]) => Promise<readonly (V | undefined)[]>,
  batchMax = BATCH_MAX,
): (key: K) => Promise<V | undefined> {
  let waiting: Asked<K, V>[] = []

  function ask(): void {
    const all = waiting
    waiting = []
    for (let from = 0; from < all.length; from += batchMax) {
      const batch = all.slice(from, from + batchMax)
      load(batch.map(({ key }) => key)).then(
        (values) => batch.forEach(({ answer }, i) => answer(values[i])),
        (error: unknown) => batch.forEach(({ fail }) => fail(error)),
      )
    }
  }

  return (key) =>
    new Promise((answer, fail) => {
      if (waiting.length === 0) setImmediate(ask)
      waiting.push({ key, answer, fail })
    })
}

/** Most values have nothing to escape, which a look tells sooner than a replacement of nothing. */
const escaped = (value: string): string => (/["\\]/.test(value) ? value.replaceAll(/["\\]/g, '\\$&') : value)

/** An array in Postgres' text format: for parameters, which the driver sends unchanged. */
export const arrayLiteral = (values: readonly (string | null)[]): string =>
  `{${values.map((value) => (value === null ? 'NULL' : `"${escaped(value)}"`)).join(',')}}`

/**
 * Turns the keys of a batch into rows of a statement, which may return its rows in any order and zero or more per key.
 *
 * types: the columns, which are members of the keys, and their Postgres types.
 * Returns the FROM source, its columns, `n`, the number of the key that a row belongs to (from 1), the parameters to execute the
 * prepared statement with, and `inOrder`, which returns the last row of each key in the order of the keys.
 */
export function keysAsRows<C extends string>(types: Readonly<Record<C, 'bool' | 'int' | 'text' | 'uuid'>>) {
  const names = Object.keys(types) as C[]
  const parameterOf = (name: C) => `asked.${name}`
  const columns = Object.fromEntries(names.map((name) => [name, sql`asked.${sql.identifier(name)}`])) as Record<C, SQL>
  const arrays = names.map((name) => sql`${sql.placeholder(parameterOf(name))}::${sql.raw(types[name])}[]`)
  const columnNames = [...names.map((name) => sql.identifier(name)), sql`n`]
  type Key = Readonly<Record<C, string | number | boolean | null>>
  return {
    columns,
    n: sql<number>`asked.n`.mapWith(Number),
    from: sql`unnest(${sql.join(arrays, sql`, `)}) with ordinality as asked(${sql.join(columnNames, sql`, `)})`,
    parameters: (keys: readonly Key[]): Record<string, string> =>
      Object.fromEntries(
        names.map((name) => [
          parameterOf(name),
          arrayLiteral(keys.map(({ [name]: value }) => (value === null ? null : String(value)))),
        ]),
      ),
    inOrder<R extends { n: number }>(keys: readonly Key[], rows: readonly R[]): (R | undefined)[] {
      const rowsInOrder = Array.from<R | undefined>({ length: keys.length })
      for (const row of rows) rowsInOrder[row.n - 1] = row
      return rowsInOrder
    },
  }
}
