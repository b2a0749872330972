import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import postgres from 'postgres'

/** Where the statements of a run are written down, relative to the service; turbo keeps the folder with the run's result. */
export const STATEMENTS_FOLDER = '.test/statements'

/** Different statements by the name of the pool that sent them. */
export type RecordedStatements = Record<string, string[]>

/** Parsed and analysed in full, but for a parameter whose type only its value would tell. */
const INDETERMINATE_DATATYPE = '42P18'
/** It ran on the same schema before, so a table that is not there is one that a test had made; but for those of Postgres itself. */
const TABLE_OF_A_TEST = /^relation "(?!pg_)\w+" does not exist$/

/** All different statements that a pool sent in the tests of the last run of this package, and in this one so far. */
export function recordedStatements(pool: string): string[] {
  const folder = resolve(STATEMENTS_FOLDER)
  const files = existsSync(folder) ? readdirSync(folder) : []
  const recorded = files.map((file) => JSON.parse(readFileSync(resolve(folder, file), 'utf8')) as RecordedStatements)
  return [...new Set(recorded.flatMap((byPool) => byPool[pool] ?? []))].sort()
}

/** Has Postgres parse and analyse each statement, without running it. Returns those that it refuses, each with the reason. */
export async function findUnpreparable(url: string, statements: readonly string[]): Promise<string[]> {
  const sql = postgres(url, { max: 4, onnotice: () => {} })
  try {
    const faults = await Promise.all(
      statements.map(async (text) => {
        try {
          await sql.unsafe(text).describe()
          return []
        } catch (error) {
          const { code, message } = error as postgres.PostgresError
          const isRight = code === INDETERMINATE_DATATYPE || TABLE_OF_A_TEST.test(message)
          return isRight ? [] : [`${message}: ${text}`]
        }
      }),
    )
    return faults.flat()
  } finally {
    await sql.end({ timeout: 5 })
  }
}
