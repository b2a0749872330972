import { sql } from 'drizzle-orm'
import { startOwnPostgres, type OwnPostgres } from '@platform/testkit/own-postgres'
import { isDrill } from '@platform/testkit/test-environment'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startTestIdp, type TestIdp } from '../../../test/start.ts'

/** In CI more than a month of them, one every five minutes. */
const ROTATIONS = isDrill ? 10_000 : 2_000
const MEGABYTE = 1_048_576

/*
 * Rotations prune what they left behind, as long as nobody may still need it. Postgres asks for that in all databases at
 * once: any transaction on the server that has a number and lasts for some fifty rotations costs the table a page (on
 * the run's server that is another file's), and so does a snapshot in this database (autovacuum's). Hence a server of
 * our own, where nothing cleans up behind the rotations either.
 */
let server: OwnPostgres
let idp: TestIdp
beforeAll(async () => {
  server = await startOwnPostgres(['idp'], { autovacuum: 'off' })
  idp = await startTestIdp({ DATABASE_URL: server.url('idp') })
})
afterAll(async () => {
  await idp.close()
  await server.remove()
})

const sizes = async (): Promise<Record<string, number>> =>
  Object.fromEntries(
    (
      await idp.deps.db.execute<{ name: string; bytes: number }>(
        sql`select relname as name, pg_total_relation_size(relid)::int as bytes from pg_stat_user_tables`,
      )
    ).map(({ name, bytes }) => [name, bytes]),
  )

test(`${ROTATIONS} rotations of one session make no table grow, nor reach 1 MB`, async () => {
  const client = await idp.client()
  let { refresh_token: token = '' } = await idp.tokens(client, await idp.person(), 'offline_access')
  await idp.deps.db.execute('vacuum') // which adds maps to tables
  const before = await sizes()
  for (let n = 0; n < ROTATIONS; n++) {
    const answer = await fetch(`${idp.url}/oauth2/token`, {
      method: 'POST',
      body: new URLSearchParams({ grant_type: 'refresh_token', client_id: client.id, refresh_token: token }),
    })
    expect(answer.status).toBe(200)
    token = ((await answer.json()) as { refresh_token: string }).refresh_token
  }
  expect(token.split('.')[3]).toBe(String(ROTATIONS + 1))
  const after = await sizes()
  const grown = Object.keys(after).filter((table) => (after[table] ?? 0) > (before[table] ?? 0))
  expect(grown).toEqual([])
  expect(Math.max(...Object.values(after))).toBeLessThan(MEGABYTE)
}, 300_000)
