import { type Postgres, startPostgres } from '@platform/embedded-postgres/start-postgres'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import postgres from 'postgres'
import { freePort } from './free-port.ts'

export interface OwnPostgres {
  /** The connection string of one of its databases; unchanged after a restart. */
  url(database: string): string
  /** Safe to repeat. */
  stop(): Promise<void>
  /** Starts it again, on the same port and with its data. */
  start(): Promise<void>
  /** Stops it and removes its data. */
  remove(): Promise<void>
}

/**
 * Starts a Postgres for one test, which may restart it or needs to be alone on it. The run's shared server has other clients,
 * whose transactions keep old row versions alive in all its databases.
 *
 * databases: to create in it, empty.
 * settings: server settings, such as `{ autovacuum: 'off' }`.
 * log: receives the server's log, line by line.
 */
export async function startOwnPostgres(
  databases: readonly string[],
  settings: Record<string, string> = {},
  log: (line: string) => void = () => {},
): Promise<OwnPostgres> {
  const dataFolder = await mkdtemp(join(tmpdir(), 'platform-test-own-postgres-'))
  const port = await freePort()
  let server: Postgres
  const start = async () => {
    server = await startPostgres({ dataFolder, port, isDurable: false, settings, log })
  }
  const own: OwnPostgres = {
    url: (database) => server.url(database),
    stop: () => server.stop(),
    start,
    async remove() {
      await server.stop()
      await rm(dataFolder, { recursive: true, force: true })
    },
  }
  await start()
  const sql = postgres(own.url('postgres'), { max: 1 })
  for (const database of databases) await sql`create database ${sql(database)}`
  await sql.end()
  return own
}
