import { type SQL, sql } from 'drizzle-orm'

/** More than so many at once are asked for in several goes. */
const BATCH_MAX = 200

interface Asked<K, V> {
  key: K
  answer: (value: V | undefined) => void
  fail: (error: unknown) => void
}

/**
 * Collects what is asked for in one tick of the event loop and asks once. A process that is busy asks for many things a
 * tick, and one statement for twenty rows costs little more than one for a single row; an idle one asks as it would anyway.
 * Nothing is remembered: who asks in the next tick asks anew.
 *
 * batchMax: more in one tick are asked for in several statements at once.
 * load: the values for the keys, in their order; undefined for what there is none of. When it fails, all of the batch fail.
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

/** An array as Postgres reads it from text: for parameters, which the driver sends as they are. */
export const arrayLiteral = (values: readonly (string | null)[]): string =>
  `{${values.map((value) => (value === null ? 'NULL' : `"${value.replaceAll(/["\\]/g, '\\$&')}"`)).join(',')}}`

/**
 * The keys of a batch as rows of a statement, which answers in any order, with none or several rows for a key.
 *
 * types: the columns, which are members of the keys, and their types in Postgres.
 * Returns what to select from, its columns, the number that a key's rows carry (from 1), what to execute the prepared
 * statement with, and the last row of each key in the order of the keys.
 */
export function keysAsRows<C extends string>(types: Readonly<Record<C, 'int' | 'text' | 'uuid'>>) {
  const names = Object.keys(types) as C[]
  const parameterOf = (name: C) => `asked.${name}`
  const columns = Object.fromEntries(names.map((name) => [name, sql`asked.${sql.identifier(name)}`])) as Record<C, SQL>
  const arrays = names.map((name) => sql`${sql.placeholder(parameterOf(name))}::${sql.raw(types[name])}[]`)
  const columnNames = [...names.map((name) => sql.identifier(name)), sql`n`]
  type Key = Readonly<Record<C, string | number | null>>
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
