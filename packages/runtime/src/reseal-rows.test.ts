// engines: postgres
import { createDatabase } from '@platform/testkit/databases'
import { holding } from '@platform/testkit/holding'
import { eq, ne } from 'drizzle-orm'
import { pgTable, text } from 'drizzle-orm/pg-core'
import { expect, onTestFinished, test } from 'vitest'
import { bytea } from './columns.ts'
import { openDatabase } from './database.ts'
import { resealRows } from './reseal-rows.ts'
import { createSealer } from './seal.ts'

const [k1, k2] = ['k1', 'k2'].map((id) => ({ id, key: Buffer.alloc(32, id) })) as [never, never]
const before = createSealer([k1])
const sealer = createSealer([k2, k1])
const secrets = pgTable('secrets', { name: text().primaryKey(), ciphertext: bytea(), kekId: text('kek_id') })
const columns = { id: secrets.name, ciphertext: secrets.ciphertext, kekId: secrets.kekId }
const contextOf = (name: string) => `secret:${name}`

/** Creates a table of values s0, s1, … sealed with the previous key. */
async function newSecrets(count: number) {
  const { url } = await createDatabase('empty')
  const { db, close } = openDatabase(url, { name: 'test', max: 2, prepare: true })
  onTestFinished(close)
  await db.execute('create table secrets (name text primary key, ciphertext bytea, kek_id text)')
  const names = Array.from({ length: count }, (_, n) => `s${n}`)
  await db.insert(secrets).values(names.map((name) => ({ name, ...before.seal(`value of ${name}`, contextOf(name)) })))
  return { url, db }
}

test('every value is sealed anew, in as many batches as it takes, and a second time none', async () => {
  const { db } = await newSecrets(501)
  await db.insert(secrets).values({ name: 'none', ciphertext: null, kekId: null })
  expect(await resealRows({ db, sealer }, columns, contextOf)).toBe(501)
  expect(await resealRows({ db, sealer }, columns, contextOf)).toBe(0)
  const alone = createSealer([k2])
  const rows = await db.select().from(secrets).where(ne(secrets.name, 'none'))
  for (const { name, ciphertext, kekId } of rows)
    expect(alone.open({ ciphertext, kekId } as never, contextOf(name)).toString()).toBe(`value of ${name}`)
})

test('a value that another process writes meanwhile stays as it was written', async () => {
  const { url, db } = await newSecrets(1)
  const newer = sealer.seal('newer', contextOf('s0'))
  const [count] = await holding(
    url,
    (sql) => sql`update secrets set ciphertext = ${newer.ciphertext}, kek_id = ${newer.kekId}`,
    [() => resealRows({ db, sealer }, columns, contextOf)],
  )
  expect(count).toBe(0)
  const [row] = await db.select().from(secrets).where(eq(secrets.name, 's0'))
  expect(row).toEqual({ name: 's0', ...newer })
})

test('a value under a master key that is not held stops it', async () => {
  const { db } = await newSecrets(1)
  await expect(resealRows({ db, sealer: createSealer([k2]) }, columns, contextOf)).rejects.toThrow('master key k1')
})
