// engines: postgres
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { isUnavailable, openDatabase, openDatabaseProbe } from '@platform/runtime/database'
import { createLogger } from '@platform/runtime/logger'
import { openNotifications } from '@platform/runtime/notifications'
import { startCable } from '@platform/testkit/cable'
import { createDatabase } from '@platform/testkit/databases'
import { sql } from 'drizzle-orm'
import postgres from 'postgres'
import { describe, expect, onTestFinished, type TestContext, test, vi } from 'vitest'

const HOUR_SECONDS = 3_600

async function open(max: number, context: Pick<TestContext, 'onTestFinished'> = { onTestFinished }) {
  const { url } = await createDatabase('empty')
  const database = openDatabase(url, { name: 'test', max, prepare: true })
  context.onTestFinished(() => database.close())
  return database
}

/** Whether an error reads as unavailable, and the code and message of the driver's own. */
const reason = (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => 'done',
    // drizzle wraps the errors of queries, and not those of transactions.
    (error: Error) => {
      const { code, message } = (error.cause ?? error) as Error & { code?: string }
      return `${isUnavailable(error) ? 'unavailable' : 'refused'}: ${code}, ${message}`
    },
  )
/** How the pool ends whoever waits too long for a connection. */
const CANCELLED = 'unavailable: 57014, 57014: canceling statement due to user request'

const outcome = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => 'done',
    (error: unknown) => (isUnavailable(error) ? 'unavailable' : error),
  )

test.each(['between two of its queries', 'during a query'])(
  'a transaction whose connection breaks %s is unavailable, and process and pool go on',
  async (when) => {
    const { url } = await createDatabase('empty')
    const { db, sql: pool, close } = openDatabase(url, { name: 'test', max: 1, prepare: true })
    const administrator = postgres(url, { max: 1 })
    onTestFinished(close)
    onTestFinished(() => administrator.end())
    const broken = db.transaction(async (tx) => {
      const [row] = await tx.execute<{ pid: number }>(sql`select pg_backend_pid() as pid`)
      const underWay = when === 'during a query' && outcome(tx.execute(sql`select pg_sleep(4)`))
      const backend = row?.pid ?? 0
      await administrator`select pg_terminate_backend(${backend})`
      while ((await administrator`select from pg_stat_activity where pid = ${backend}`).length > 0);
      await underWay
      await tx.execute(sql`select 1`)
    })
    expect(await outcome(broken)).toBe('unavailable')
    expect(await outcome(db.execute(sql`select 1`))).toBe('done')
    // Nothing is under way any more: otherwise the end would wait for it, longer than this test may last.
    await pool.end({ timeout: HOUR_SECONDS })
  },
)

test('what a broken transaction still asks for never reaches the connection that replaced its own', async () => {
  const { url } = await createDatabase('empty')
  const { db, close } = openDatabase(url, { name: 'test', max: 1, prepare: true })
  const administrator = postgres(url, { max: 1 })
  onTestFinished(close)
  onTestFinished(() => administrator.end())
  await administrator`create table written (by_whom text)`

  const firstIsGone = Promise.withResolvers<void>()
  const otherHasBegun = Promise.withResolvers<void>()
  const firstIsOver = Promise.withResolvers<void>()
  let late: unknown
  const first = db.transaction(async (tx) => {
    const [row] = await tx.execute<{ pid: number }>(sql`select pg_backend_pid() as pid`)
    await administrator`select pg_terminate_backend(${row?.pid ?? 0})`
    firstIsGone.resolve()
    await otherHasBegun.promise
    late = await outcome(tx.execute(sql`insert into written values ('first')`))
    firstIsOver.resolve()
    throw new Error('The transaction fails, so it is rolled back')
  })
  const isUnavailable = outcome(first)
  await firstIsGone.promise
  const other = db.transaction(async (tx) => {
    await tx.execute(sql`insert into written values ('other')`)
    otherHasBegun.resolve()
    await firstIsOver.promise
    await tx.execute(sql`select 1`) // a round trip, in which a rollback that was sent would have arrived
    await tx.execute(sql`insert into written values ('other, later')`)
  })
  expect(await outcome(other)).toBe('done')
  expect([await isUnavailable, late]).toEqual(['unavailable', 'unavailable'])
  expect(await administrator`select by_whom from written order by by_whom`).toEqual([
    { by_whom: 'other' },
    { by_whom: 'other, later' },
  ])
})

/** Stands before the server of a database: can break what passes, and turn away who comes. */
async function startDoor(databaseUrl: string) {
  const to = new URL(databaseUrl)
  const passing = new Set<Socket>()
  let isShut = false
  const server = createServer((near) => {
    if (isShut) return void near.on('error', () => {}).end()
    const far = connect(Number(to.port || 5432), to.hostname)
    passing.add(near.on('error', () => {}).on('close', () => far.destroy()))
    far.on('error', () => {}).on('close', () => near.destroy())
    near.pipe(far).pipe(near)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  const url = new URL(databaseUrl)
  url.host = `127.0.0.1:${(server.address() as AddressInfo).port}`
  return {
    url: url.href,
    reset: () => passing.forEach((socket) => socket.resetAndDestroy()),
    setShut: (value: boolean) => void (isShut = value),
  }
}

test('after a reset during a transaction all of its statements are unavailable, and later ones get their own answers', async () => {
  const { url } = await createDatabase('empty')
  const door = await startDoor(url)
  const { db, sql: pool, close } = openDatabase(door.url, { name: 'test', max: 1, prepare: true })
  const administrator = postgres(url, { max: 1 })
  onTestFinished(close)
  onTestFinished(() => administrator.end())
  let statements: Promise<unknown>[] = []
  const broken = db.transaction(async (tx) => {
    const [row] = await tx.execute<{ pid: number }>(sql`select pg_backend_pid() as pid`)
    statements = [1, 2, 3].map((n) => outcome(tx.execute(sql`select pg_sleep(4), ${n}::int`)))
    const isSleeping = () =>
      administrator`select from pg_stat_activity where pid = ${row?.pid ?? 0} and wait_event = 'PgSleep'`
    while ((await isSleeping()).length === 0);
    door.reset()
    await Promise.all(statements)
    await tx.execute(sql`select 1`)
  })
  expect(await outcome(broken)).toBe('unavailable')
  expect(await Promise.all(statements)).toEqual(['unavailable', 'unavailable', 'unavailable'])
  for (const n of [1, 2, 3]) expect(await db.execute(sql`select ${n}::int as n`)).toEqual([{ n }])
  await pool.end({ timeout: HOUR_SECONDS }) // nothing is under way any more
})

test('who is turned away while connecting is unavailable at once, and the pool goes on when the door opens', async () => {
  const door = await startDoor((await createDatabase('empty')).url)
  const { db, close } = openDatabase(door.url, { name: 'test', max: 1, prepare: true })
  onTestFinished(close)
  door.setShut(true)
  // Not cancelled, unlike a query that waits in vain for a connection.
  expect(await reason(db.execute(sql`select 1`))).toMatch(/^unavailable: (CONNECTION_|ECONN)/)
  door.setShut(false)
  expect(await outcome(db.execute(sql`select 1`))).toBe('done')
})

test.each([97, 98, 99, 100, 101, 102])(
  'a transaction that begins behind %i statements on their way has its connection to itself',
  async (n) => {
    const { db } = await open(1)
    await db.execute(sql`create table written (n int)`)
    const others = Array.from({ length: n }, () => outcome(db.execute(sql`select 1`)))
    const transaction = db.transaction(async (tx) => {
      await tx.execute(sql`insert into written values (1)`)
      throw new Error('rolled back')
    })
    others.push(outcome(db.execute(sql`insert into written values (2)`)))
    await expect(transaction).rejects.toThrow('rolled back')
    expect(new Set(await Promise.all(others))).toEqual(new Set(['done']))
    expect(await db.execute(sql`select n from written`)).toEqual([{ n: 2 }])
  },
)

test('a pool closes its idle connections, and a hundred queries at once succeed before, while and after it does', async () => {
  const { url } = await createDatabase('empty')
  const { db, close } = openDatabase(url, { name: 'idle pool', max: 10, prepare: true, idleMs: 20 })
  const administrator = postgres(url, { max: 1 })
  onTestFinished(close)
  onTestFinished(() => administrator.end())
  const countOpen = async () =>
    (await administrator`select from pg_stat_activity where application_name = 'idle pool'`).length
  const numbers = Array.from({ length: 100 }, (_, number) => number)
  const askAll = () =>
    Promise.all(numbers.map(async (n) => (await db.execute<{ n: number }>(sql`select ${n}::int as n`))[0]?.n))
  for (let left = 10; left >= 0; left--) {
    expect(await askAll()).toEqual(numbers)
    while ((await countOpen()) > left);
  }
  expect(await askAll()).toEqual(numbers)
})

test('a connection that a transaction holds stays open, however long nothing is asked of it', async () => {
  const { url } = await createDatabase('empty')
  const { db, close } = openDatabase(url, { name: 'idle pool', max: 2, prepare: true, idleMs: 1 })
  const administrator = postgres(url, { max: 1 })
  onTestFinished(close)
  onTestFinished(() => administrator.end())
  const backend = async (tx: Pick<typeof db, 'execute'>) =>
    (await tx.execute<{ pid: number }>(sql`select pg_backend_pid() as pid`))[0]?.pid
  const [before, after] = await db.transaction(async (tx) => {
    const [held] = await Promise.all([backend(tx), backend(db)])
    // The other one, which nobody holds, closes meanwhile.
    while ((await administrator`select from pg_stat_activity where application_name = 'idle pool'`).length > 1);
    return [held, await backend(tx)]
  })
  expect(after).toBe(before)
})

test('a pool uses next the connection that was used last, so the others become idle', async () => {
  const { db } = await open(4)
  const backend = async () => (await db.execute<{ pid: number }>(sql`select pg_backend_pid() as pid`))[0]?.pid
  const atOnce = await Promise.all([backend(), backend(), backend(), backend()])
  expect(new Set(atOnce).size).toBe(4)
  const inTurn = new Set<number | undefined>()
  for (let query = 0; query < 20; query++) inTurn.add(await backend())
  expect(inTurn.size).toBe(1)
})

test('5,000 queries may wait for the database; one more is refused at once, as unavailable', async () => {
  const { db } = await open(10)
  const outcomes = await Promise.all(Array.from({ length: 5_001 }, () => reason(db.execute(sql`select 1`))))
  expect(outcomes.slice(0, 5_000).filter((each) => each !== 'done')).toEqual([])
  expect(outcomes[5_000]).toBe('unavailable: 53300, Too many requests are waiting for the database')
})

test('time in which the process stood still does not count as waiting for the database', async () => {
  const { db } = await open(1)
  await db.execute(sql`select 1`)
  const clock = vi.spyOn(Date, 'now')
  onTestFinished(() => clock.mockRestore())
  // One query is under way and one waits for its connection.
  const queries = [sql`select pg_sleep(1)`, sql`select 1`].map((query) => outcome(db.execute(query)))
  await new Promise(setImmediate)
  // As after a pause of a minute.
  clock.mockImplementation(() => performance.timeOrigin + performance.now() + 60_000)
  expect(await Promise.all(queries)).toEqual(['done', 'done'])
})

/** A pool behind a cable; both end with the test. */
async function openBehindCable(max: number, context: TestContext) {
  const { expect } = context
  const cable = await startCable(new URL((await createDatabase('empty')).url))
  const { db, close } = openDatabase(cable.url, { name: 'test', max, prepare: true })
  context.onTestFinished(async () => {
    cable.wake()
    await close()
    cable.close()
  })
  const works = () => Promise.all(Array.from({ length: 2 * max }, () => outcome(db.execute(sql`select 1`))))
  expect(new Set(await works())).toEqual(new Set(['done']))
  return { cable, db, works }
}

// They wait far more than they work, each with a database of its own.
describe.concurrent('what takes its time', () => {
  test('whoever waits 5 s for a connection is refused, a transaction too, and the pool goes on', async (context) => {
    const { expect } = context
    const { db } = await open(1, context)
    const hasBegun = Promise.withResolvers<void>()
    const mayEnd = Promise.withResolvers<void>()
    const held = db.transaction(async (tx) => {
      await tx.execute(sql`select 1`)
      hasBegun.resolve()
      await mayEnd.promise
    })
    await hasBegun.promise
    const waiting = [db.execute(sql`select 1`), db.transaction((tx) => tx.execute(sql`select 1`))]
    // After 12 s without an answer they would be ETIMEDOUT.
    expect(await Promise.all(waiting.map(reason))).toEqual([CANCELLED, CANCELLED])
    mayEnd.resolve()
    await held
    expect(await outcome(db.execute(sql`select 1`))).toBe('done')
  })

  test('a statement ends after 5 s, and that reads as unavailable', async (context) => {
    const { expect } = context
    const { db } = await open(1, context)
    // After 12 s without an answer it would be ETIMEDOUT.
    expect(await reason(db.execute(sql`select pg_sleep(20)`))).toBe(
      'unavailable: 57014, canceling statement due to statement timeout',
    )
    expect(await outcome(db.execute(sql`select 1`))).toBe('done')
  })

  test('a database that hangs for longer than anybody waits leaves the pool whole once it wakes', async (context) => {
    const { expect } = context
    const scenarios = {
      async 'transactions that could not begin, more than there are connections'() {
        const { cable, db, works } = await openBehindCable(2, context)
        cable.hang()
        const begun = Array.from({ length: 6 }, () => db.transaction((tx) => tx.execute(sql`select 1`)))
        expect(new Set(await Promise.all(begun.map(outcome)))).toEqual(new Set(['unavailable']))
        cable.wake()
        return works
      },
      async 'two statements of a transaction at once'() {
        const { cable, db, works } = await openBehindCable(1, context)
        const hung = Promise.withResolvers<void>()
        const working = db.transaction(async (tx) => {
          await tx.execute(sql`select 1`)
          cable.hang()
          hung.resolve()
          await Promise.all([tx.execute(sql`select 1`), tx.execute(sql`select 2`)])
        })
        await hung.promise
        expect(await outcome(working)).toBe('unavailable')
        cable.wake()
        return works
      },
      async 'a commit that is not answered'() {
        const { cable, db, works } = await openBehindCable(1, context)
        expect(
          await outcome(
            db.transaction(async (tx) => {
              await tx.execute(sql`select 1`)
              cable.hang()
            }),
          ),
        ).toBe('unavailable')
        cable.wake()
        return works
      },
      async 'a query that gave up before its connection was made'() {
        const { cable, db, works } = await openBehindCable(1, context)
        cable.hang()
        cable.cut()
        await cable.mend()
        expect(await outcome(db.execute(sql`select 1`))).toBe('unavailable')
        cable.wake()
        return works
      },
    }
    const ended = await Promise.all(
      Object.entries(scenarios).map(async ([name, run]) => {
        const works = await run()
        await expect.poll(async () => new Set(await works())).toEqual(new Set(['done']))
        return name
      }),
    )
    expect(ended).toEqual(Object.keys(scenarios))
  })

  test('a transaction that gives its statements more time is not cut off', async (context) => {
    const { expect } = context
    const { db } = await open(1, context)
    const working = db.transaction(async (tx) => {
      await tx.execute(sql`set local statement_timeout = 0`)
      await tx.execute(sql`select pg_sleep(13)`)
    })
    expect(await outcome(working)).toBe('done')
  })
})

test('the probe says no while the database hangs, keeps no connection, and says yes once it wakes', async () => {
  const { url } = await createDatabase('empty')
  const cable = await startCable(new URL(url))
  const probe = openDatabaseProbe(cable.url, 200)
  onTestFinished(async () => {
    await probe.close()
    cable.close()
  })
  expect(await probe.isAnswering()).toBe(true)
  cable.hang()
  for (let n = 0; n < 5; n++) expect(await probe.isAnswering()).toBe(false)
  cable.wake()
  await expect.poll(() => probe.isAnswering()).toBe(true)
  const administrator = postgres(url, { max: 1 })
  onTestFinished(() => administrator.end())
  const connections = () =>
    administrator`select 1 from pg_stat_activity where datname = current_database() and application_name = 'probe'`
  await expect.poll(async () => (await connections()).length).toBe(1)
})

test('whoever listens hears again after the connection broke, and is told to look for what was missed', async () => {
  const { url } = await createDatabase('empty')
  const cable = await startCable(new URL(url))
  const notifications = openNotifications(cable.url, createLogger('test', 'silent'))
  const administrator = postgres(url, { max: 1 })
  onTestFinished(async () => {
    await notifications.close()
    await administrator.end()
    cable.close()
  })
  const heard: string[] = []
  let listened = 0
  notifications.listen('news', { onMessage: (payload) => void heard.push(payload), onListening: () => void listened++ })
  await expect.poll(() => listened).toBe(1)
  await administrator`select pg_notify('news', 'first')`
  await expect.poll(() => heard).toEqual(['first'])
  cable.cut()
  await cable.mend()
  await expect.poll(() => listened).toBe(2)
  await administrator`select pg_notify('news', 'second')`
  await expect.poll(() => heard).toEqual(['first', 'second'])
})

test('closing what listens does not wait for a server that hangs', async () => {
  const cable = await startCable(new URL((await createDatabase('empty')).url))
  cable.hang()
  const notifications = openNotifications(cable.url, createLogger('test', 'silent'))
  notifications.listen('news', { onMessage: () => {}, onListening: () => {} })
  await expect(notifications.close()).resolves.toBeUndefined()
  cable.close()
})
