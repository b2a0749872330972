import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import postgres from 'postgres'
import { inject } from 'vitest'
import './test-servers.ts'

/** What a database starts as, made once in a run: a name, and what brings the empty database there. */
export type Template = { name: string; migrate: (url: string) => Promise<void> }

export type TestDatabase = { url: string; drop: () => Promise<void> }

const emptyTemplate: Template = { name: 'empty', migrate: async () => {} }
const inUse = '55006'
const patienceMs = 10_000

/**
 * Makes a database of one's own: without tables, or as a template has it. The template is migrated by whoever asks first
 * and cloned from then on, in some 50 ms.
 *
 * Dropping is optional: the run drops what is left. drop() also ends the connections of others, and is safe to repeat.
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

/** The Redis to test against, or undefined: then a test uses the memory driver. Take a testKeyPrefix() with it. */
export function testRedisUrl(): string | undefined {
  return inject('testServers').redisUrl
}

/** A prefix for Redis keys that no other test file and no earlier run has, ending in a colon. */
export function testKeyPrefix(): string {
  return `test:${randomBytes(8).toString('hex')}:`
}

/** Files of the run ask at the same time, from processes of their own: the first migrates while the others wait. */
async function makeTemplate(sql: postgres.Sql, database: string, migrate: Template['migrate']): Promise<void> {
  await sql`select pg_advisory_lock(hashtext(${database}))`
  try {
    if ((await sql`select from pg_database where datname = ${database}`).length > 0) return
    // Renamed once migrated, so whatever carries the name is complete.
    const unfinished = `${database}_new`
    await sql`drop database if exists ${sql(unfinished)} with (force)`
    await sql`create database ${sql(unfinished)} template template0`
    await migrate(urlOf(unfinished))
    await whenUnused(() => sql`alter database ${sql(unfinished)} rename to ${sql(database)}`)
  } finally {
    await sql`select pg_advisory_unlock(hashtext(${database}))`
  }
}

/** A connection closed a moment ago still counts as using its database. */
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
