import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { openDatabase } from '@platform/runtime/database'
import { createLogger } from '@platform/runtime/logger'
import { openNotifications } from '@platform/runtime/notifications'
import { startCable } from '@platform/testkit/cable'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { sql } from 'drizzle-orm'
import { afterAll, beforeAll, describe, expect, type TestContext, test } from 'vitest'
import { deploy, giveHostname, makeCurrent } from '../../../../test/deploy.ts'
import { newOwner, unique } from '../../../../test/scenario.ts'
import { openSiteDirectory } from './site-directory.ts'

/** While notifications are not heard, an answer is valid this long; a hanging connection is detected within twice that. */
const ASK_AGAIN_MS = 5_000

let platform: TestPlatform
beforeAll(async () => {
  platform = await startPlatform()
})
afterAll(() => platform.close())

const labelOf = (host: string): string => host.split('.')[0] ?? ''

/** A route to Postgres on which no notification arrives, as behind a pooler in transaction mode. */
async function startDeafWay(to: URL, { onTestFinished }: TestContext) {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    const far = connect(Number(to.port || 5432), to.hostname)
    for (const end of [socket, far]) {
      sockets.add(end)
      end.on('error', () => end.destroy()).on('close', () => [socket, far].forEach((each) => each.destroy()))
    }
    socket.pipe(far)
    let rest = Buffer.alloc(0)
    far.on('data', (chunk: Buffer) => {
      rest = Buffer.concat([rest, chunk])
      // A message is a letter, its length without that letter, and the rest; A is NotificationResponse.
      while (rest.length >= 5 && rest.length > rest.readInt32BE(1)) {
        const end = 1 + rest.readInt32BE(1)
        if (rest.toString('latin1', 0, 1) !== 'A') socket.write(rest.subarray(0, end))
        rest = rest.subarray(end)
      }
    })
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  onTestFinished(() => {
    server.close()
    for (const socket of sockets) socket.destroy()
  })
  return Object.assign(new URL(to), { hostname: '127.0.0.1', port: String((server.address() as AddressInfo).port) })
    .href
}

/** A directory that reads and listens through its own cables; its answers age only by `pass`. */
async function openDirectory({ onTestFinished }: TestContext) {
  const [reading, listening] = await Promise.all([1, 2].map(() => startCable(new URL(platform.databaseUrl))))
  if (!reading || !listening) throw new Error('No cables')
  const { db, close } = openDatabase(reading.url, { name: 'directory', max: 2, prepare: true })
  const notifications = openNotifications(listening.url, createLogger('test', 'silent'))
  let elapsedMs = 0
  const sites = openSiteDirectory({ db, notifications, monotonicMs: () => elapsedMs })
  const heard = new Set<string>()
  notifications.listen('heard', { onMessage: (marker) => heard.add(marker), onListening: () => {} })
  onTestFinished(async () => {
    for (const cable of [reading, listening]) cable.wake()
    await notifications.close()
    await close()
    for (const cable of [reading, listening]) cable.close()
  })
  const current = async (label: string) => (await sites.find(label))?.deployment?.id
  const pass = (ms: number) => void (elapsedMs += ms)
  return { sites, current, reading, listening, db, pass, heard }
}

/** True if an answer is there without a look-up. */
const isKnown = (answer: Promise<unknown>): Promise<boolean> =>
  Promise.race([
    answer.then(() => true),
    Promise.resolve().then(async () => {
      for (let n = 0; n < 20; n++) await Promise.resolve()
      return false
    }),
  ])

/** An application with one hostname and two deployments, the first of which is current. */
async function newSite() {
  const owner = await newOwner(platform)
  const host = await giveHostname(platform, owner.applicationId)
  const first = await deploy(platform, owner, {})
  const second = await deploy(platform, owner, { isCurrent: false })
  return { owner, label: labelOf(host), first, second }
}

/** Waits until the directory has heard of all changes so far: they arrive in the order of their commits. */
async function untilAllHeard(
  { current, heard }: Pick<Awaited<ReturnType<typeof openDirectory>>, 'current' | 'heard'>,
  { expect }: TestContext,
): Promise<void> {
  const { label, first, second } = await newSite()
  for (const next of [second, first]) {
    await makeCurrent(platform, next)
    await expect.poll(() => current(label)).toBe(next.id)
  }
  // A look-up may have shown the last change before it was heard.
  const marker = unique()
  await expect
    .poll(async () => {
      await platform.api.db.execute(sql`select pg_notify('heard', ${marker})`)
      return heard
    })
    .toContain(marker)
}

test('a label is looked up once, and again when Postgres says that it changed', async (context) => {
  const directory = await openDirectory(context)
  const { label, first, second } = await newSite()
  await untilAllHeard(directory, context)
  const free = `free-${unique()}`
  expect([await directory.current(label), await directory.sites.find(free)]).toEqual([first.id, undefined])
  directory.reading.cut() // look-ups fail from here on
  expect([await directory.current(label), await directory.sites.find(free)]).toEqual([first.id, undefined])
  await directory.reading.mend()
  await makeCurrent(platform, second)
  await expect.poll(() => directory.current(label)).toBe(second.id)
})

test('a label that belonged to nothing is found as soon as it is given', async (context) => {
  const { sites } = await openDirectory(context)
  const owner = await newOwner(platform)
  const label = `new-${unique()}`
  expect(await sites.find(label)).toBeUndefined()
  const { token, applicationId } = owner
  expect((await platform.call(token, `PUT /applications/${applicationId}/hostname`, { label })).status).toBe(200)
  await expect.poll(async () => (await sites.find(label))?.applicationId).toBe(applicationId)
})

test('an answer that a change overtook on its way is not kept', async (context) => {
  const directory = await openDirectory(context)
  const { current, reading } = directory
  const { label, first, second } = await newSite()
  await untilAllHeard(directory, context)
  const other = labelOf(first.host)
  expect(await current(other)).toBe(first.id)
  const { db } = platform.api
  const [clock] = await db.execute<{ time: string }>(sql`select clock_timestamp()::text as time`)
  reading.holdAnswers()
  const overtaken = current(label)
  const answered = sql`select from pg_stat_activity where application_name = 'directory'
    and datname = current_database() and state = 'idle' and query_start > ${clock?.time}::timestamptz
    and query like '%from "hostnames"%'`
  // The server has computed its answer from before the change, and the cable holds it back.
  await expect.poll(() => db.execute(answered)).toHaveLength(1)
  await makeCurrent(platform, second)
  // Once another label of the application is forgotten, the change has been heard; looking that label up then waits as well.
  await expect.poll(() => isKnown(current(other))).toBe(false)
  reading.wake()
  expect(await overtaken).toBe(first.id)
  expect(await current(label)).toBe(second.id)
})

// These tests mostly wait, each with its own directory and sites.
describe.concurrent('where nothing is heard', () => {
  test('while nothing is heard an answer is renewed after 5 s', async (context) => {
    const { expect } = context
    const directory = await openDirectory(context)
    const { label, first, second } = await newSite()
    await untilAllHeard(directory, context)
    expect(await directory.current(label)).toBe(first.id)
    directory.listening.cut()
    await makeCurrent(platform, second)
    directory.pass(ASK_AGAIN_MS - 1)
    expect(await directory.current(label)).toBe(first.id)
    directory.pass(1)
    await expect.poll(() => directory.current(label)).toBe(second.id)
  })

  test('a connection that listens and hangs is taken for lost', async (context) => {
    const { expect } = context
    const directory = await openDirectory(context)
    const { label, first, second } = await newSite()
    await untilAllHeard(directory, context)
    expect(await directory.current(label)).toBe(first.id)
    directory.listening.holdAnswers()
    await makeCurrent(platform, second)
    directory.pass(ASK_AGAIN_MS)
    await expect.poll(() => directory.current(label), { timeout: ASK_AGAIN_MS * 5 }).toBe(second.id)
    // Once it answers again, changes are heard at once.
    directory.listening.wake()
    await untilAllHeard(directory, context)
  })

  test('behind a pooler that passes no notification on, answers are renewed every 5 s', async (context) => {
    const { expect } = context
    const notifications = openNotifications(
      await startDeafWay(new URL(platform.databaseUrl), context),
      createLogger('test', 'silent'),
    )
    context.onTestFinished(() => notifications.close())
    const sites = openSiteDirectory({ db: platform.api.db, notifications })
    const { label, first, second } = await newSite()
    const current = async () => (await sites.find(label))?.deployment?.id
    for (const next of [second, first, second]) {
      await makeCurrent(platform, next)
      await expect.poll(current, { timeout: ASK_AGAIN_MS * 4 }).toBe(next.id)
    }
  })
})

test('all that was kept is forgotten when changes are heard again', async (context) => {
  const directory = await openDirectory(context)
  const { label, first, second } = await newSite()
  await untilAllHeard(directory, context)
  directory.listening.cut()
  expect(await directory.current(label)).toBe(first.id)
  await makeCurrent(platform, second)
  await directory.listening.mend()
  // Its clock stands still, so that no answer is renewed for its age.
  await expect.poll(() => directory.current(label)).toBe(second.id)
})

test('a known site outlasts its database, and a hanging one delays it by a second at most', async (context) => {
  const directory = await openDirectory(context)
  const { label, first } = await newSite()
  await untilAllHeard(directory, context)
  expect(await directory.current(label)).toBe(first.id)
  directory.listening.cut()
  directory.reading.hang()
  const find = () => directory.current(label)
  // Until the end of the connection that listens is noticed, the answer stays as it is.
  await expect
    .poll(() => {
      directory.pass(ASK_AGAIN_MS)
      return isKnown(find())
    })
    .toBe(false)
  for (let n = 0; n < 2; n++) {
    directory.pass(ASK_AGAIN_MS)
    // The database hangs until this test wakes it, and a query of the pool waits 12 s for it.
    const query = directory.db.execute(sql`select 1`).catch(() => 'the query gave up')
    expect(await Promise.race([find(), query])).toBe(first.id)
    // Then nobody is delayed for a while.
    directory.pass(ASK_AGAIN_MS - 1)
    expect(await isKnown(find())).toBe(true)
  }
  directory.reading.wake()
  directory.reading.cut()
  expect(await directory.current(label)).toBe(first.id)
  await expect(directory.sites.find(`never-${unique()}`)).rejects.toThrow('Failed query')
})
