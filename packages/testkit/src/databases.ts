import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import postgres from 'postgres'
import { inject } from 'vitest'
import './test-servers.ts'

/** The initial state of a database, made once per run: a name, and the migration that takes an empty database there. */
export type Template = { name: string; migrate: (url: string) => Promise<void> }

export type TestDatabase = { url: string; drop: () => Promise<void> }

const emptyTemplate: Template = { name: 'empty', migrate: async () => {} }
const inUse = '55006'
const patienceMs = 60_000

/**
 * Creates a database for one test: empty, or from a template. The first caller migrates the template; later calls clone it in
 * some 50 ms.
 *
 * Dropping is optional: the run drops the rest. drop() also ends other connections, and is safe to repeat.
 * Template names: lower case letters, digits and underscores, at most 20.
 */
export async function createDatabase(template: 'empty' | Template): Promise<TestDatabase> {
  const { databasePrefix, copyStrategy } = inject('testServers')
  const { name, migrate } = template === 'empty' ? emptyTemplate : template
  if (!/^[a-z0-9_]{1,20}$/.test(name)) throw new Error(`"${name}" is no template name`)

  const templateDatabase = `${databasePrefix}_template_${name}`
  const database = `${databasePrefix}_${name}_${randomBytes(4).toString('hex')}`
  await asAdministrator(async (sql) => {
    await makeTemplate(sql, templateDatabase, migrate)
    await whenUnused(
      () => sql`
      create database ${sql(database)} template ${sql(templateDatabase)} strategy ${sql.unsafe(copyStrategy)}
    `,
    )
  })
  return {
    url: urlOf(database),
    drop: () =>
      asAdministrator(async (sql) => {
        await sql`drop database if exists ${sql(database)} with (force)`
      }),
  }
}

/** The Redis to test against, or undefined: then a test uses the memory driver. Use a testKeyPrefix() with it. */
export function testRedisUrl(): string | undefined {
  return inject('testServers').redisUrl
}

/** A prefix for Redis keys, unique across test files and runs, ending in a colon. */
export function testKeyPrefix(): string {
  return `test:${randomBytes(8).toString('hex')}:`
}

/** Several files of the run call this at the same time, from separate processes: the first migrates while the others wait. */
async function makeTemplate(sql: postgres.Sql, database: string, migrate: Template['migrate']): Promise<void> {
  await sql`select pg_advisory_lock(hashtext(${database}))`
  try {
    if ((await sql`select from pg_database where datname = ${database}`).length > 0) return
    // Renamed once migrated, so a database of this name is complete.
    const unfinished = `${database}_new`
    await sql`drop database if exists ${sql(unfinished)} with (force)`
    await sql`create database ${sql(unfinished)} template template0`
    await migrate(urlOf(unfinished))
    await whenUnused(() => sql`alter database ${sql(unfinished)} rename to ${sql(database)}`)
  } finally {
    await sql`select pg_advisory_unlock(hashtext(${database}))`
  }
}

/** A connection closed just now still counts as using its database. */
async function whenUnused(statement: () => Promise<unknown>): Promise<void> {
  for (const deadline = Date.now() + patienceMs; ; await sleep(20)) {
    try {
      await statement()
      return
    } catch (error) {
      if (!(error instanceof postgres.PostgresError) || error.code !== inUse || Date.now() > deadline) throw error
    }
  }
}

async function asAdministrator(work: (sql: postgres.Sql) => Promise<void>): Promise<void> {
  const sql = postgres(inject('testServers').databaseUrl, { max: 1, onnotice: () => {} })
  try {
    await work(sql)
  } finally {
    await sql.end({ timeout: 5 })
  }
}

function urlOf(database: string): string {
  const url = new URL(inject('testServers').databaseUrl)
  url.pathname = `/${database}`
  return url.href
}
