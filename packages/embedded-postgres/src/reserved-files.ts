import { chown, link, open, readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import postgres from 'postgres'
import type { Account } from './account.ts'

/** Files of the write-ahead log, of 16 MB. A checkpoint begins once half of them are written, and makes them free again. */
export const WAL_FILES = 8

const PAGE_BYTES = 8_192
const STATUS_FILE_BYTES = 32 * PAGE_BYTES

interface StatusFiles {
  /** Below the cluster. Its files are named by their number, hexadecimal, in four digits. */
  folder: string
  /** What a file has room for. */
  perFile: number
  /** How many are laid out beyond the one in use. */
  ahead: number
  /** SQL: how many have been handed out of what the files count. */
  handedOut: string
}

const xids = 'pg_snapshot_xmax(pg_current_snapshot())::text::bigint & 4294967295'
/** In which Postgres keeps what became of transactions. A checkpoint writes their pages, and fails if one needs space. */
const STATUS_FILES: readonly StatusFiles[] = [
  { folder: 'pg_xact', perFile: 32 * 4 * PAGE_BYTES, ahead: 1, handedOut: xids },
  { folder: 'pg_subtrans', perFile: (32 * PAGE_BYTES) / 4, ahead: 4, handedOut: xids },
  {
    folder: 'pg_multixact/offsets',
    perFile: (32 * PAGE_BYTES) / 4,
    ahead: 1,
    handedOut: '(select next_multixact_id::text::bigint from pg_control_checkpoint())',
  },
  {
    folder: 'pg_multixact/members',
    perFile: 32 * 1_636,
    ahead: 1,
    handedOut: '(select next_multi_offset::text::bigint from pg_control_checkpoint())',
  },
]

async function writeZeros(file: string, bytes: number, flag: 'a' | 'w'): Promise<void> {
  const handle = await open(file, flag, 0o600)
  try {
    await handle.writeFile(Buffer.alloc(bytes))
    await handle.datasync()
  } finally {
    await handle.close()
  }
}

/** Fills the newest file of each kind to its full length: no new page of it will need space. The server must not run. */
export async function fillStatusFiles(clusterFolder: string): Promise<void> {
  for (const { folder } of STATUS_FILES) {
    const names = (await readdir(join(clusterFolder, folder))).filter((name) => /^[0-9A-F]{4}$/.test(name)).toSorted()
    const newest = names.at(-1)
    if (newest === undefined) continue
    const file = join(clusterFolder, folder, newest)
    const { size } = await stat(file)
    if (size < STATUS_FILE_BYTES) await writeZeros(file, STATUS_FILE_BYTES - size, 'a')
  }
}

/** Lays out the files of transactions that come next. Safe while the server runs: none is touched that is there. */
async function layOutStatusFiles(sql: postgres.Sql, clusterFolder: string, account: Account): Promise<void> {
  const places = STATUS_FILES.map(({ handedOut }, n) => `(${handedOut})::float8 as n${n}`).join(', ')
  const [row] = await sql.unsafe<Record<string, number>[]>(`select ${places}`)
  // Not among Postgres's own files before it is whole.
  const whole = join(clusterFolder, '../status-file.new')
  for (const [n, { folder, perFile, ahead }] of STATUS_FILES.entries()) {
    const inUse = Math.floor((row?.[`n${n}`] ?? 0) / perFile)
    for (let number = inUse + 1; number <= inUse + ahead; number++) {
      const name = number.toString(16).toUpperCase().padStart(4, '0')
      if (name.length > 4) break // it begins again at zero, where older ones may still lie
      const target = join(clusterFolder, folder, name)
      if (await stat(target).catch(() => undefined)) continue
      await writeZeros(whole, STATUS_FILE_BYTES, 'w')
      if (account) await chown(whole, account.uid >>> 0, account.gid >>> 0)
      // Unlike a rename, it replaces nothing that Postgres has made meanwhile.
      await link(whole, target).catch((error: NodeJS.ErrnoException) => {
        if (error.code !== 'EEXIST') throw error
      })
      await rm(whole)
    }
  }
}

/** Lays out the write-ahead log: files that were written before a checkpoint stay, under the names of files to come. */
async function layOutWal(sql: postgres.Sql): Promise<void> {
  const [found] = await sql<{ count: number }[]>`select count(*)::int as count from pg_ls_waldir() where size > 0`
  if (!found || found.count >= WAL_FILES - 1) return
  for (let n = found.count; n < WAL_FILES; n++) {
    // A file without a record would not be ended.
    await sql`select pg_logical_emit_message(false, 'reserve', '')`
    await sql`select pg_switch_wal()`
  }
  await sql`checkpoint`
}

/** See `reserve` of Postgres. */
export async function reserveFiles(adminUrl: string, clusterFolder: string, account: Account): Promise<void> {
  const sql = postgres(adminUrl, { max: 1, onnotice: () => {} })
  try {
    await layOutStatusFiles(sql, clusterFolder, account)
    await layOutWal(sql)
  } finally {
    await sql.end({ timeout: 5 })
  }
}
