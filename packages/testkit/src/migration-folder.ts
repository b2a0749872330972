import { createHash } from 'node:crypto'
import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

interface Journal {
  entries: { idx: number; tag: string }[]
}

const BREAKPOINT = '--> statement-breakpoint'

const readJournal = async (folder: string): Promise<Journal> =>
  JSON.parse(await readFile(join(folder, 'meta/_journal.json'), 'utf8')) as Journal

/** The names of a service's migrations, in order. */
export const migrationTags = async (folder: string): Promise<string[]> =>
  (await readJournal(folder)).entries.map(({ tag }) => tag)

/** By name the hash of each migration, as the migrator notes it: SHA-256 of its file, in hex. */
export async function migrationHashes(folder: string): Promise<Record<string, string>> {
  const hash = async (tag: string) =>
    createHash('sha256')
      .update(await readFile(join(folder, `${tag}.sql`)))
      .digest('hex')
  return Object.fromEntries(await Promise.all((await migrationTags(folder)).map(async (tag) => [tag, await hash(tag)])))
}

const statementsOf = (text: string): string[] => text.split(BREAKPOINT)

/** The number of statements that the runner sends for a migration. */
export const countStatements = async (folder: string, tag: string): Promise<number> =>
  statementsOf(await readFile(join(folder, `${tag}.sql`), 'utf8')).length

/**
 * Calls `work` with a copy of a migrations folder that ends with the given migration, so that the real runner stops there.
 *
 * after: a statement to insert after one of the last migration's statements, counted from 1.
 */
export async function withMigrationsUpTo<T>(
  folder: string,
  tag: string,
  work: (folder: string) => Promise<T>,
  after?: { statement: number; run: string },
): Promise<T> {
  const copy = await mkdtemp(join(tmpdir(), 'platform-test-migrations-'))
  try {
    await cp(folder, copy, { recursive: true })
    const journal = await readJournal(folder)
    const end = journal.entries.findIndex((entry) => entry.tag === tag) + 1
    await writeFile(
      join(copy, 'meta/_journal.json'),
      JSON.stringify({ ...journal, entries: journal.entries.slice(0, end) }),
    )
    if (after) {
      const file = join(copy, `${tag}.sql`)
      const statements = statementsOf(await readFile(file, 'utf8'))
      await writeFile(file, statements.toSpliced(after.statement, 0, after.run).join(BREAKPOINT))
    }
    return await work(copy)
  } finally {
    await rm(copy, { recursive: true, force: true })
  }
}
