import { startOwnPostgres, type OwnPostgres } from '@platform/testkit/own-postgres'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { eq, sql } from 'drizzle-orm'
import { register } from 'prom-client'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { newOwner, type Owner, servedRequest } from '../../../../test/scenario.ts'
import { requestCounts, requestLogs, requestPlaceCounts, requestSummaries } from './table.ts'
import { openRequestLog } from './write.ts'

/** The writer's documented limit of waiting requests. */
const WAITING_MAX = 10_000

let server: OwnPostgres
let platform: TestPlatform
beforeAll(async () => {
  server = await startOwnPostgres(['api', 'idp'])
  platform = await startPlatform({ databases: { api: server.url('api'), idp: server.url('idp') } })
})
afterAll(async () => {
  await platform.close()
  await server.remove()
})

const metric = async (name: 'request_logs_waiting' | 'request_logs_dropped_total'): Promise<number> => {
  const { values } = (await register.getSingleMetric(name)?.get()) ?? { values: [] }
  return values[0]?.value ?? 0
}

const served = ({ applicationId }: Owner, path: string) =>
  servedRequest({ applicationId, path, startedAt: platform.clock.now() })

async function countStored(owner: Owner, pathPrefix: string): Promise<number> {
  const on = `GET /applications/${owner.applicationId}/requests?limit=1&pathPrefix=${encodeURIComponent(pathPrefix)}`
  const { status, body } = await platform.call(owner.token, on)
  if (status !== 200) throw new Error(`${on} answered ${status}`)
  return body.total as number
}

/** Polls until all waiting requests are stored or dropped. */
async function untilNoneWaits(): Promise<void> {
  for (const deadline = Date.now() + 20_000; (await metric('request_logs_waiting')) > 0;) {
    if (Date.now() > deadline) throw new Error('Request logs still wait')
    await platform.api.db.execute('select 1').catch(() => {})
  }
}

test('logs wait while the database is away and are stored by themselves once it is back', async () => {
  const owner = await newOwner(platform)
  const log = openRequestLog(platform.api)
  log.write(served(owner, '/before'))
  await log.flush()
  await server.stop()
  log.write(served(owner, '/during'))
  log.write(served(owner, '/later'))
  await log.flush()
  expect(await metric('request_logs_waiting')).toBe(2)
  await server.start()
  await untilNoneWaits()
  for (const path of ['/before', '/during', '/later']) expect([path, await countStored(owner, path)]).toEqual([path, 1])
  await log.close()
})

test('of more than 10,000 that wait the later ones are dropped and counted, and the first 10,000 are stored', async () => {
  const owner = await newOwner(platform)
  const log = openRequestLog(platform.api)
  const droppedBefore = await metric('request_logs_dropped_total')
  await server.stop()
  for (let n = 0; n < WAITING_MAX; n++) log.write(served(owner, `/in time/${n}`))
  expect(await metric('request_logs_dropped_total')).toBe(droppedBefore)
  for (let n = 0; n < 3; n++) log.write(served(owner, '/too late'))
  expect(await metric('request_logs_waiting')).toBe(WAITING_MAX)
  expect(await metric('request_logs_dropped_total')).toBe(droppedBefore + 3)
  await server.start()
  await untilNoneWaits()
  expect([await countStored(owner, '/in time/'), await countStored(owner, '/too late')]).toEqual([WAITING_MAX, 0])
  expect(await metric('request_logs_dropped_total')).toBe(droppedBefore + 3)
  log.write(served(owner, '/afterwards'))
  await log.close()
  expect(await countStored(owner, '/afterwards')).toBe(1)
})

test.each([
  ['their rows', requestLogs],
  ['their counts', requestCounts],
  ['their places', requestPlaceCounts],
  ['their sums', requestSummaries],
])('a batch that Postgres refuses at the commit for %s stores neither rows nor counts', async (_, refused) => {
  const owner = await newOwner(platform)
  const log = openRequestLog(platform.api)
  const count = (of: typeof refused) => platform.api.db.$count(of, eq(of.applicationId, owner.applicationId))
  const countAll = () => Promise.all([requestLogs, requestCounts, requestPlaceCounts, requestSummaries].map(count))
  // Fires with the COMMIT, after all statements of the batch.
  await platform.api.db.execute(sql`
    create function refuse() returns trigger language plpgsql as $$ begin raise exception 'refused'; end $$`)
  await platform.api.db.execute(sql`
    create constraint trigger refuse after insert or update on ${refused} deferrable initially deferred
    for each row execute function refuse()`)
  onTestFinished(async () => void (await platform.api.db.execute(sql`drop function if exists refuse cascade`)))
  log.write(served(owner, '/refused'))
  await log.flush()
  expect(await countAll()).toEqual([0, 0, 0, 0])
  await platform.api.db.execute(sql`drop function refuse cascade`)
  log.write(served(owner, '/stored'))
  await log.close()
  expect([await countStored(owner, '/'), await countStored(owner, '/stored')]).toEqual([1, 1])
})

test('what waits when the writer is closed while the database is away is given up and counted', async () => {
  const owner = await newOwner(platform)
  const log = openRequestLog(platform.api)
  const droppedBefore = await metric('request_logs_dropped_total')
  await server.stop()
  log.write(served(owner, '/'))
  await log.close()
  expect([await metric('request_logs_waiting'), await metric('request_logs_dropped_total')]).toEqual([
    0,
    droppedBefore + 1,
  ])
  await server.start()
})
