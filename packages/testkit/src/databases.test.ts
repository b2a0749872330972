import postgres from 'postgres'
import { expect, test } from 'vitest'
import { createDatabase, testKeyPrefix } from './databases.ts'

async function query(url: string, statement: string): Promise<postgres.Row[]> {
  const sql = postgres(url, { max: 1 })
  try {
    return await sql.unsafe(statement)
  } finally {
    await sql.end()
  }
}

test('databases asked for at once share one migration and nothing else', async () => {
  let migrations = 0
  const template = {
    name: 'counted',
    async migrate(url: string) {
      migrations += 1
      await query(url, 'create table kept (n int)')
    },
  }
  const databases = await Promise.all(Array.from({ length: 4 }, () => createDatabase(template)))
  expect(migrations).toBe(1)
  await Promise.all(databases.map(({ url }, n) => query(url, `insert into kept values (${n})`)))
  const contents = await Promise.all(databases.map(({ url }) => query(url, 'select n from kept')))
  expect(contents).toEqual([[{ n: 0 }], [{ n: 1 }], [{ n: 2 }], [{ n: 3 }]])
})

test('a migration that fails is reported, and tried again by the next', async () => {
  const template = (statement: string) => ({
    name: 'retried',
    migrate: async (url: string) => void (await query(url, statement)),
  })
  await expect(createDatabase(template('create nonsense'))).rejects.toThrow('syntax error')
  const { url } = await createDatabase(template('create table kept ()'))
  expect(await query(url, 'select from kept')).toHaveLength(0)
})

test('dropping ends the connections of others and may be repeated', async () => {
  const { url, drop } = await createDatabase('empty')
  const sql = postgres(url, { max: 1 })
  expect(await sql`select 1 as n`).toEqual([{ n: 1 }])
  await drop()
  await drop()
  await expect(sql`select 1`).rejects.toThrow(/does not exist|terminating connection|CONNECTION_/)
  await sql.end()
})

test('key prefixes differ', () => {
  expect(testKeyPrefix()).not.toBe(testKeyPrefix())
})
