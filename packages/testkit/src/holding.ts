import { AssertionError } from 'node:assert'
import { setTimeout as sleep } from 'node:timers/promises'
import postgres from 'postgres'

const ASKED_EVERY_MS = 5
const PATIENCE_MS = 60_000

/**
 * Makes racers provably overlap: a separate connection locks what they need, each racer starts once the one before waits for
 * a Postgres lock, and then the connection commits. Returns the racers' results in order.
 *
 * The first racer continues first. The others follow in order if they wait for an advisory lock, or for a row that nobody
 * changes; once a row was changed, by `take` or by a racer, Postgres lets all its waiters continue at once.
 *
 * url: the database that the racers use.
 * take: locks what the racers need, such as `(sql) => sql\`select 1 from users where id = ${id} for update\``. Its changes
 * are committed when the racers are released, so it can act as a rival that was faster than all of them.
 * racers: each has to wait for `take`'s connection, or for a racer that does. Waiting for anything else does not count. A
 * racer may do other work before it waits.
 *
 * Throws an AssertionError if a racer ends without waiting: what was to make it wait is missing. Throws if a racer does not wait
 * within a minute: then nothing raced. Rethrows a racer's error.
 */
export async function holding<T extends readonly unknown[] | []>(
  url: string,
  take: (sql: postgres.TransactionSql) => Promise<unknown>,
  racers: { readonly [K in keyof T]: () => Promise<T[K]> },
): Promise<T> {
  const holder = postgres(url, { max: 1, onnotice: () => {} })
  const observer = postgres(url, { max: 1, onnotice: () => {} })
  const started: Promise<unknown>[] = []

  async function countWaiting(holderPid: number): Promise<number> {
    const [row] = await observer<{ waiting: number }[]>`
      with recursive held(pid) as (
        select ${holderPid}::int
        union
        select a.pid from held, pg_stat_activity a
        where a.datname = current_database() and a.wait_event_type = 'Lock' and held.pid = any(pg_blocking_pids(a.pid))
      ) select count(*)::int - 1 as waiting from held`
    return row?.waiting ?? 0
  }

  async function untilWaiting(holderPid: number, isOver: () => boolean): Promise<void> {
    for (const deadline = Date.now() + PATIENCE_MS; ; await sleep(ASKED_EVERY_MS)) {
      if ((await countWaiting(holderPid)) >= started.length) return
      if (isOver())
        throw new AssertionError({ message: `Racer ${started.length} ended without waiting for what is held` })
      if (Date.now() > deadline) throw new Error(`Racer ${started.length} did not come to wait for what is held`)
    }
  }

  try {
    await holder.begin(async (sql) => {
      await take(sql)
      const [self] = await sql<{ pid: number }[]>`select pg_backend_pid() as pid`
      for (const start of racers) {
        let isOver = false
        const racing = start()
        started.push(racing)
        racing.then(
          () => (isOver = true),
          () => (isOver = true),
        )
        await untilWaiting(self?.pid ?? 0, () => isOver)
      }
    })
    return (await Promise.all(started)) as unknown as T
  } finally {
    await Promise.allSettled(started)
    await Promise.all([holder.end({ timeout: 5 }), observer.end({ timeout: 5 })])
  }
}
