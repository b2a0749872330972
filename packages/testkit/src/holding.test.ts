// engines: postgres
import postgres from 'postgres'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createDatabase } from './databases.ts'
import { holding } from './holding.ts'

let url: string
let sql: postgres.Sql
beforeAll(async () => {
  ;({ url } = await createDatabase('empty'))
  sql = postgres(url, { max: 10 })
  await sql`create table counters (name text primary key, n int)`
})
afterAll(() => sql.end())

const begin = (name: string) => sql`insert into counters values (${name}, 0)`
const current = async (name: string) =>
  (await sql<{ n: number }[]>`select n from counters where name = ${name}`)[0]?.n ?? 0
/** Reads a value and later writes the sum: of two concurrent calls one is lost. */
const addCarelessly = async (name: string, added: number) => {
  const n = (await current(name)) + added
  await sql`update counters set n = ${n} where name = ${name}`
  return n
}
const lock = (name: string) => (held: postgres.TransactionSql) =>
  held`select from counters where name = ${name} for update`

test('racers overlap, and the first goes on first', async () => {
  await begin('lost')
  const racers = [() => addCarelessly('lost', 1), () => addCarelessly('lost', 10)]
  expect(await holding(url, lock('lost'), racers)).toEqual([1, 10])
  expect(await current('lost')).toBe(10)
})

test('what is changed while the racers wait is what they find', async () => {
  await begin('changed')
  const add = async () => (await sql`update counters set n = n + 1 where name = 'changed' returning n`)[0]
  const rows = await holding(url, (held) => held`update counters set n = 10 where name = 'changed'`, [add, add])
  expect(rows.map((row) => row?.n as number).toSorted((a, b) => a - b)).toEqual([11, 12])
})

test('a racer may wait for another racer, and do something else before', async () => {
  await Promise.all([begin('first'), begin('second')])
  const racers = await holding(url, lock('first'), [
    () =>
      sql.begin(async (tx) => {
        await lock('second')(tx)
        return (await tx`update counters set n = n + 1 where name = 'first' returning name`)[0]?.name as string
      }),
    async () => {
      await begin('third')
      return (await sql`update counters set n = n + 1 where name = 'second' returning name`)[0]?.name as string
    },
  ])
  expect(racers).toEqual(['first', 'second'])
})

test('a racer that ends without waiting is named, also where somebody else waits for something else', async () => {
  await Promise.all([begin('held'), begin('other')])
  const lockElse = (held: postgres.TransactionSql) => held`select pg_advisory_xact_lock(1)`
  const [, outcome] = await holding(url, lockElse, [
    () => sql.begin(lockElse),
    async () => {
      const racing = holding(url, lock('held'), [() => addCarelessly('held', 1), () => current('other')])
      const thrown = await racing.catch(String)
      await sql.begin(lockElse)
      return thrown
    },
  ])
  expect(outcome).toBe('AssertionError [ERR_ASSERTION]: Racer 2 ended without waiting for what is held')
  expect(await current('held')).toBe(1)
})

test('what a racer throws is thrown, and the others come to their end', async () => {
  await begin('failing')
  const fail = () =>
    sql.begin(async (tx) => {
      await lock('failing')(tx)
      throw new Error('changed its mind')
    })
  const racing = holding(url, lock('failing'), [fail, () => addCarelessly('failing', 1)])
  await expect(racing).rejects.toThrow('changed its mind')
  expect(await current('failing')).toBe(1)
})
