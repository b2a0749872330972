import type { Db } from '@platform/runtime/database'
import type { Logger } from '@platform/runtime/logger'
import type { Notifications } from '@platform/runtime/notifications'
import { resealRows } from '@platform/runtime/reseal-rows'
import type { Sealed, Sealer } from '@platform/runtime/seal'
import { and, desc, eq, gt, isNull, ne, or, type SQL, sql } from 'drizzle-orm'
import type { PgColumn } from 'drizzle-orm/pg-core'

/** How long before its boundary the next key is created, so that every process and verifier learns of it in time. */
const MADE_AHEAD_MS = 14 * 86_400_000
/** How often a process reloads the keys. Two intervals after a key is created, every process knows it. */
export const RELOAD_MS = 60_000

type Transaction = Parameters<Parameters<Db['transaction']>[0]>[0]

/** A row of keys. The secret is sealed. */
interface KeyRow extends Sealed {
  id: string
  activatesAt: Date
  /** Null until a successor arrives. */
  retiresAt: Date | null
}

interface RotatingKey<Material> {
  id: string
  material: Material
  /** Milliseconds since 1970. */
  activatesAt: number
  /** Infinity until a successor arrives. */
  retiresAt: number
}

/** Keys rotated on 1 January and 1 July, shared by the processes of a service through its database. */
export interface RotatingKeys<Material> {
  /** Returns the newest activated key. Throws if there is none. */
  active(): RotatingKey<Material>
  /** Returns every key that is not retired, including those not active yet, in activation order. */
  live(): RotatingKey<Material>[]
  /** Returns every key ever created, in activation order. */
  all(): readonly RotatingKey<Material>[]
  /** Creates the keys that are due, if any, and loads the keys of other processes. Runs by itself every 60 s. */
  maintain(): Promise<void>
  /**
   * Creates a key that is active at once and retires all others at once: for a key that leaked. Every listening process of the
   * service uses it as soon as the rotation commits. Returns its id.
   * record: runs in the same transaction, for an audit.
   */
  rotateNow(record?: (tx: Pick<Db, 'insert'>, id: string) => Promise<void>): Promise<string>
  /** Reseals every key of the table that is not under the sealer's current master key. Returns their number. */
  reencrypt(): Promise<number>
  close(): void
}

interface RotatingKeysOptions<Row extends KeyRow, Material> {
  db: Db
  sealer: Sealer
  now: () => Date
  logger: Logger
  /** Announces rotations in other processes; without it they are noticed by the reload every 60 s. */
  notifications: Notifications | undefined
  /** The adjective for these keys in log lines, for example `signing`. */
  name: string
  /** The advisory lock for creating keys. */
  lock: number
  /** The channel that announces an immediate rotation to other processes. */
  channel: string
  columns: { id: PgColumn; ciphertext: PgColumn; kekId: PgColumn; activatesAt: PgColumn; retiresAt: PgColumn }
  /** The condition that selects these keys, if the table holds others too. */
  isOfSet?: SQL
  /** The associated data of the key with this id. */
  contextOf(id: string): string
  /** How long a predecessor stays live after its successor's activation. */
  overlapMs: number
  /** How long a key created after its boundary waits for activation: until every process and verifier knows it. */
  lateKeyWaitsMs: number
  /** Returns the rows of this set, in activation order. */
  read(db: Db): Promise<Row[]>
  /** Builds a key from a row and its opened secret. Called once per row, as long as this process knows it. */
  open(row: Row, secret: Buffer): Material
  /** Creates a key and inserts its row, sealed by `seal` under an id of its choice. Returns the id. */
  insert(tx: Pick<Db, 'insert'>, activatesAt: Date, seal: (secret: Buffer, id: string) => Sealed): Promise<string>
}

/** 00:00 UTC of the last 1 January or 1 July at or before `time`, and of the one after it (B §5). */
export function rotationBoundaries(time: Date): { last: Date; next: Date } {
  const year = time.getUTCFullYear()
  const isSecondHalf = time.getUTCMonth() >= 6
  return {
    last: new Date(Date.UTC(year, isSecondHalf ? 6 : 0)),
    next: new Date(isSecondHalf ? Date.UTC(year + 1, 0) : Date.UTC(year, 6)),
  }
}

/**
 * Opens a set of rotating keys. Creates the first key if there is none.
 *
 * The active key is determined at each call, so replicas switch at the same instant without coordination (B §5). Keys are
 * created under an advisory lock; `activates_at` is also unique.
 */
export async function openRotatingKeys<Row extends KeyRow, Material>(
  options: RotatingKeysOptions<Row, Material>,
): Promise<RotatingKeys<Material>> {
  const { db, sealer, now, logger, notifications, name, lock, channel, columns, isOfSet, contextOf } = options
  const { table } = columns.id
  let keys: RotatingKey<Material>[] = []
  /** The latest load of the keys. Loads are serialized: an older result must never replace a newer one. */
  let loading: Promise<void> = Promise.resolve()

  const load = (): Promise<void> => (loading = loading.then(readKeys, readKeys))

  async function readKeys(): Promise<void> {
    const rows = await options.read(db)
    const known = new Map(keys.map(({ id, material }) => [id, material]))
    keys = rows.map((row) => ({
      id: row.id,
      material: known.get(row.id) ?? options.open(row, sealer.open(row, contextOf(row.id))),
      activatesAt: row.activatesAt.getTime(),
      retiresAt: row.retiresAt?.getTime() ?? Number.POSITIVE_INFINITY,
    }))
  }

  const retiresAfter = (time: Date) => or(isNull(columns.retiresAt), gt(columns.retiresAt, time))

  async function insertKey(tx: Transaction, activatesAt: Date, othersRetireAt: Date): Promise<string> {
    const seal = (secret: Buffer, id: string) => sealer.seal(secret, contextOf(id))
    const id = await options.insert(tx, activatesAt, seal)
    await tx.execute(sql`
      update ${table} set ${sql.identifier(columns.retiresAt.name)} = ${sql.param(othersRetireAt, columns.retiresAt)}
      where ${and(isOfSet, ne(columns.id, id), retiresAfter(othersRetireAt))}`)
    return id
  }

  /** Returns when the due key becomes active; undefined if none is due. */
  function dueActivation(newest: Date | undefined): Date | undefined {
    const time = now()
    const { last, next } = rotationBoundaries(time)
    if (!newest) return time
    // No process was running to create the key of the last boundary. It is created now, and active once everyone knows it.
    if (newest < last) return new Date(time.getTime() + options.lateKeyWaitsMs)
    if (newest < next && time.getTime() >= next.getTime() - MADE_AHEAD_MS) return next
    return undefined
  }

  const live = (): RotatingKey<Material>[] => {
    const nowMs = now().getTime()
    return keys.filter(({ retiresAt }) => retiresAt > nowMs)
  }

  /** Returns whether another key may be due: the very first key may be created right before a boundary. */
  async function makeDueKey(): Promise<boolean> {
    const newest = live().at(-1)
    if (!dueActivation(newest && new Date(newest.activatesAt))) return false
    await db.transaction(async (tx) => {
      await tx.execute(sql`select pg_advisory_xact_lock(${lock})`)
      const [nextKey] = (await tx
        .select({ activatesAt: columns.activatesAt })
        .from(table)
        .where(and(isOfSet, retiresAfter(now())))
        .orderBy(desc(columns.activatesAt))
        .limit(1)) as { activatesAt: Date }[]
      const activatesAt = dueActivation(nextKey?.activatesAt)
      if (!activatesAt) return // another process was first
      // A key that was retired before its activation is in the way: activation times are unique.
      await tx.delete(table).where(and(isOfSet, eq(columns.activatesAt, activatesAt)))
      const id = await insertKey(tx, activatesAt, new Date(activatesAt.getTime() + options.overlapMs))
      logger.info({ id, activatesAt }, `${name} key made`)
    })
    await load()
    return true
  }

  async function maintain(): Promise<void> {
    await load()
    while (await makeDueKey());
  }

  const goOnWithKnown = (error: unknown) =>
    logger.warn({ err: error }, `${name} keys could not be read; the known ones go on`)

  await maintain()
  const timer = setInterval(() => void maintain().catch(goOnWithKnown), RELOAD_MS).unref()
  const reload = () => void load().catch(goOnWithKnown)
  notifications?.listen(channel, { onMessage: reload, onListening: reload })

  return {
    active() {
      const nowMs = now().getTime()
      const key = keys.findLast(({ activatesAt, retiresAt }) => activatesAt <= nowMs && retiresAt > nowMs)
      if (!key) throw new Error(`No ${name} key is active`)
      return key
    },
    live,
    all: () => keys,
    maintain,
    async rotateNow(record) {
      const id = await db.transaction(async (tx) => {
        await tx.execute(sql`select pg_advisory_xact_lock(${lock})`)
        // If other keys leaked, the successor that waits for its boundary may have too. It was never used, so it is deleted.
        await tx.delete(table).where(and(isOfSet, gt(columns.activatesAt, now())))
        const made = await insertKey(tx, now(), now())
        await record?.(tx, made)
        await tx.execute(sql`select pg_notify(${channel}, '')`)
        return made
      })
      await load()
      return id
    },
    reencrypt: () => resealRows({ db, sealer }, columns, contextOf),
    close: () => clearInterval(timer),
  }
}
