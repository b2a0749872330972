import { startPostgres } from '@platform/embedded-postgres/start-postgres'
import { randomBytes } from 'node:crypto'
import { mkdtemp, readdir, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import postgres from 'postgres'
import type { TestProject } from 'vitest/node'
import './test-servers.ts'

const folderPrefix = 'platform-test-postgres-'
const abandonedAfterMs = 3 * 60 * 60 * 1000

/**
 * A vitest globalSetup: one Postgres for the whole run, and Redis if there is one. TEST_DATABASE_URL names an existing
 * server; without it, one is started in a temporary folder and removed at the end. Databases of the run are dropped when it
 * ends, and those of aborted runs after three hours.
 */
export default async function setUpServers(project: TestProject): Promise<() => Promise<void>> {
  // oxlint-disable-next-line node/no-process-env -- the test run's own configuration, read once, here
  const { TEST_DATABASE_URL: databaseUrl, TEST_REDIS_URL: redisUrl, TEST_S3_URL: s3Url } = process.env
  const databasePrefix = `pt_${Date.now().toString(36)}_${randomBytes(3).toString('hex')}`
  const options = { databasePrefix, redisUrl: redisUrl || undefined, s3Url: s3Url || undefined }

  if (databaseUrl) {
    await dropDatabases(databaseUrl, isAbandoned)
    project.provide('testServers', { ...options, databaseUrl, copyStrategy: 'wal_log' })
    return () => dropDatabases(databaseUrl, (name) => name.startsWith(`${databasePrefix}_`))
  }

  await removeAbandonedFolders()
  const dataFolder = await mkdtemp(join(tmpdir(), folderPrefix))
  try {
    const server = await startPostgres({
      dataFolder,
      isDurable: false,
      settings: { max_connections: '200', shared_buffers: '128MB' },
    })
    // Without fsync a checkpoint is cheap, so copying files beats logging every page.
    project.provide('testServers', { ...options, databaseUrl: server.url('postgres'), copyStrategy: 'file_copy' })
    return async () => {
      await server.stop()
      await rm(dataFolder, { recursive: true, force: true })
    }
  } catch (error) {
    await rm(dataFolder, { recursive: true, force: true })
    throw error
  }
}

function isAbandoned(name: string): boolean {
  const startedAt = /^pt_([0-9a-z]{8})_[0-9a-f]{6}_/.exec(name)?.[1]
  return startedAt !== undefined && Number.parseInt(startedAt, 36) < Date.now() - abandonedAfterMs
}

async function dropDatabases(databaseUrl: string, isChosen: (name: string) => boolean): Promise<void> {
  const sql = postgres(databaseUrl, { max: 4, onnotice: () => {} })
  try {
    const rows = await sql<{ datname: string }[]>`select datname from pg_database where datname like 'pt\\_%'`
    const chosen = rows.map(({ datname }) => datname).filter((name) => isChosen(name))
    // Another run may be dropping the same leftovers, hence `if exists`; a conflict over those must not fail this run.
    await Promise.all(
      chosen.map((name) =>
        sql`drop database if exists ${sql(name)} with (force)`.catch((error: unknown) => {
          if (!isAbandoned(name)) throw error
        }),
      ),
    )
  } finally {
    await sql.end({ timeout: 5 })
  }
}

/** Folders of runs that were killed; their servers shut down by themselves. */
async function removeAbandonedFolders(): Promise<void> {
  const names = (await readdir(tmpdir())).filter((name) => name.startsWith(folderPrefix))
  for (const folder of names.map((name) => join(tmpdir(), name))) {
    const stats = await stat(folder).catch(() => undefined)
    const isOurs = stats && stats.uid === process.getuid?.()
    if (isOurs && stats.mtimeMs < Date.now() - abandonedAfterMs) await rm(folder, { recursive: true, force: true })
  }
}
