import { setTimeout as sleep } from 'node:timers/promises'
import postgres from 'postgres'

const ASKED_EVERY_MS = 5
const PATIENCE_MS = 10_000

/**
 * Makes racers overlap, provably: a second connection takes what they need, each is started once the one before it waits for a
 * lock of Postgres, and then the connection lets go. Returns what the racers return, in their order.
 *
 * url: the database, in which nothing else may be waiting for a lock.
 * take: locks what the racers need, such as `(sql) => sql\`select 1 from users where id = ${id} for update\``; what it
 * changes is committed.
 * Throws when a racer ends, or goes on, without having waited: then nothing raced.
 */
export async function holding<T>(
  url: string,
  take: (sql: postgres.TransactionSql) => Promise<unknown>,
  racers: readonly (() => Promise<T>)[],
): Promise<T[]> {
  const holder = postgres(url, { max: 1, onnotice: () => {} })
  const observer = postgres(url, { max: 1, onnotice: () => {} })
  const under: Promise<T>[] = []

  async function untilWaiting(count: number, isOver: () => boolean): Promise<void> {
    for (const deadline = Date.now() + PATIENCE_MS; ; await sleep(ASKED_EVERY_MS)) {
      const [row] = await observer<{ waiting: number }[]>`
        select count(*)::int as waiting from pg_stat_activity
        where datname = current_database() and wait_event_type = 'Lock'`
      if ((row?.waiting ?? 0) >= count) return
      if (isOver()) throw new Error(`Racer ${count} ended without waiting for what is held`)
      if (Date.now() > deadline) throw new Error(`Racer ${count} did not come to wait for what is held`)
    }
  }

  try {
    await holder.begin(async (sql) => {
      await take(sql)
      for (const start of racers) {
        let isOver = false
        const racing = start()
        racing.then(
          () => (isOver = true),
          () => (isOver = true),
        )
        under.push(racing)
        await untilWaiting(under.length, () => isOver)
      }
    })
    return await Promise.all(under)
  } finally {
    await Promise.allSettled(under)
    await Promise.all([holder.end({ timeout: 5 }), observer.end({ timeout: 5 })])
  }
}
