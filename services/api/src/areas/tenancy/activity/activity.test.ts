// engines: postgres
import { randomUUID } from 'node:crypto'
import { connect } from 'node:net'
import { NotFound } from '@platform/errors/api-error'
import { STREAM_SLOTS_LOCK_CLASS } from '@platform/runtime/advisory-locks'
import { openDatabase } from '@platform/runtime/database'
import { createLogger } from '@platform/runtime/logger'
import { openNotifications } from '@platform/runtime/notifications'
import { holding } from '@platform/testkit/holding'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { sql } from 'drizzle-orm'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { eventsIn, type ServerSentEvent } from '../../../../test/events.ts'
import { newKey, newOwner, type Owner } from '../../../../test/scenario.ts'
import { discardLostStreams, openStreamSlots } from '../../cluster/streams/stream-slots.ts'
import { openActivityFeed } from './feed.ts'
import { discardActivities } from './record.ts'

let platform: TestPlatform
let ana: Owner
beforeAll(async () => {
  platform = await startPlatform()
  ana = await newOwner(platform)
})
afterAll(() => platform.close())

/** The feed of another process; it is closed at the end of the test. */
function anotherFeed(db: TestPlatform['api']['db'] = platform.api.db, heartbeatMs?: number) {
  const logger = createLogger('test', 'silent')
  const notifications = openNotifications(platform.databaseUrl, logger)
  const streamSlots = openStreamSlots({ db, logger, now: platform.clock.now })
  const feed = openActivityFeed({ db, logger, notifications, streamSlots }, heartbeatMs)
  onTestFinished(async () => {
    feed.close()
    await streamSlots.close()
    await notifications.close()
  })
  return { watch: feed.watch, streamSlots }
}

interface Activity {
  id: string
  type: string
  subject: Record<string, unknown>
  actor: unknown
  createdAt: string
}
type Event = ServerSentEvent<Activity>

/** Opens the stream over HTTP; it is closed at the end of the test. */
async function follow(owner: Pick<Owner, 'token' | 'applicationId'>, headers: Record<string, string> = {}) {
  const gone = new AbortController()
  const answer = await fetch(`${platform.apiUrl}/applications/${owner.applicationId}/activity/stream`, {
    headers: { authorization: `Bearer ${owner.token}`, ...headers },
    signal: gone.signal,
  })
  const close = () => gone.abort()
  onTestFinished(close)
  const events = answer.status === 200 && answer.body ? eventsIn<Activity>(answer.body) : undefined
  const next = async (count: number): Promise<Event[]> => {
    const taken: Event[] = []
    if (!events) throw new Error(`The stream was refused with ${answer.status}`)
    while (taken.length < count) {
      const { value } = await events.next()
      if (value === undefined) break
      taken.push(value)
    }
    return taken
  }
  return { answer, next, close }
}

const setVariable = (owner: Owner, key: string) =>
  platform.call(owner.token, `POST /applications/${owner.applicationId}/env-vars`, { key, value: 'plain-value' })

test('what is done to an application arrives in order, with who did it and never a value (A §6, D47)', async () => {
  const { answer, next } = await follow(ana)
  expect([answer.status, answer.headers.get('content-type'), answer.headers.get('cache-control')]).toEqual([
    200,
    'text/event-stream',
    'no-store',
  ])
  // Clients reconnect to another process if this one is stopping.
  expect(answer.headers.get('connection')).toBe('close')
  const { body: variable } = await setVariable(ana, 'A')
  const line = `/applications/${ana.applicationId}/env-vars/${variable.id}`
  await platform.call(ana.token, `PATCH ${line}`, { sensitive: true })
  await platform.call(ana.token, `DELETE ${line}`)
  await platform.call(ana.token, `PUT /applications/${ana.applicationId}/hostname`, {
    label: `l-${randomUUID().slice(0, 6)}x`,
  })
  const key = await newKey(platform, ana, ['network:env_vars:write'])
  await platform.call(key.token, `POST /applications/${ana.applicationId}/env-vars`, {
    key: 'BY_KEY',
    value: 'plain-value',
    environment: 'preview',
  })
  await platform.call(ana.token, `DELETE /api-keys/${key.id}`)

  const events = await next(7)
  expect(events.map(({ event }) => event)).toEqual([
    'variable.created',
    'variable.updated',
    'variable.deleted',
    'hostname.set',
    'api_key.created',
    'variable.created',
    'api_key.deleted',
  ])
  expect(events.map(({ id }) => Number(id))).toEqual(events.map((_, i) => Number(events[0]?.id) + i))
  expect(events[0]?.data).toEqual({
    id: events[0]?.id,
    type: 'variable.created',
    applicationId: ana.applicationId,
    actor: { type: 'user', id: ana.person.userId },
    subject: {
      type: 'variable',
      id: variable.id,
      key: 'A',
      layer: 'application',
      environmentId: null,
      sensitive: false,
    },
    createdAt: expect.stringMatching(/Z$/) as string,
  })
  expect(events[5]?.data).toMatchObject({
    actor: { type: 'api_key', id: key.id },
    subject: { key: 'BY_KEY', layer: 'environment' },
  })
  expect(JSON.stringify(events)).not.toMatch(/plain-value|svc_secret_/)
})

const list = (owner: Pick<Owner, 'token' | 'applicationId'>, query: Record<string, string> = {}) =>
  platform.call(
    owner.token,
    `GET /applications/${owner.applicationId}/activity?${new URLSearchParams(query).toString()}`,
  )

test('the list of activity is what the stream said, newest first, and narrowed by type', async () => {
  const owner = await newOwner(platform)
  const { next } = await follow(owner)
  await setVariable(owner, 'A')
  await platform.call(owner.token, `PUT /applications/${owner.applicationId}/hostname`, {
    label: `l-${randomUUID().slice(0, 6)}x`,
  })
  await platform.call(owner.token, 'POST /deployments', { applicationId: owner.applicationId })
  await setVariable(owner, 'B')
  const told = (await next(4)).map(({ data }) => data).toReversed()
  const { status, body } = await list(owner)
  expect([status, body]).toEqual([200, { items: told, total: 4, nextCursor: null }])
  expect((await list(owner, { type: 'variable.created' })).body).toEqual({
    items: told.filter(({ type }) => type === 'variable.created'),
    total: 2,
    nextCursor: null,
  })
  expect((await list(owner, { type: 'deployment.retired' })).body).toEqual({ items: [], total: 0, nextCursor: null })
  expect((await list(owner, { type: 'variable' })).status).toBe(422)
})

test('10,000 activities are paged, each once, while others are recorded in between', async () => {
  const owner = await newOwner(platform)
  await platform.api.db.execute(
    sql`insert into activities (application_id, number, type, actor, subject, created_at)
        select ${owner.applicationId}, n, 'variable.created', '{"type": "user", "id": "ana"}', '{}', now() from generate_series(1, 10000) n`,
  )
  await platform.api.db.execute(sql`update applications set activity_number = 10000 where id = ${owner.applicationId}`)
  const numbers: number[] = []
  let cursor: string | null | undefined
  do {
    const { body } = await list(owner, { limit: '1000', ...(cursor && { cursor }) })
    expect(body.total).toBe(10_000)
    numbers.push(...(body.items as Activity[]).map(({ id }) => Number(id)))
    cursor = body.nextCursor as string | null
    expect((await setVariable(owner, `K${numbers.length}`)).status).toBe(201)
  } while (cursor !== null)
  expect(numbers).toEqual(Array.from({ length: 10_000 }, (_, n) => 10_000 - n))
  expect((await list(owner, { limit: '1' })).body).toMatchObject({ items: [{ id: '10010' }], total: 10_010 })
})

test('a cursor of the list of activity goes on under the same type and for the same application alone', async () => {
  const owner = await newOwner(platform)
  for (const key of ['A', 'B', 'C']) await setVariable(owner, key)
  const type = 'variable.created'
  const cursorOf = async (query: Record<string, string>) => (await list(owner, query)).body.nextCursor as string
  const [ofAll, ofType] = [await cursorOf({ limit: '1' }), await cursorOf({ limit: '1', type })]
  expect((await list(owner, { cursor: ofType, type })).body.items).toMatchObject([{ id: '2' }, { id: '1' }])
  const refused = [
    await list(owner, { cursor: ofAll, type }),
    await list(owner, { cursor: ofType }),
    await list(owner, { cursor: ofType, type: 'variable.deleted' }),
    await list(ana, { cursor: ofAll }),
  ]
  expect(refused.map(({ status, body }) => [status, body.error as string])).toEqual(
    refused.map(() => [400, 'The cursor does not belong to this list']),
  )
})

test('Last-Event-ID brings what was missed, once, and then what is new', async () => {
  const owner = await newOwner(platform)
  for (const key of ['A', 'B', 'C']) await setVariable(owner, key)
  const { next, close } = await follow(owner, { 'last-event-id': '1' })
  expect((await next(2)).map(({ data }) => data.subject.key)).toEqual(['B', 'C'])
  close()
  await platform.api.db.execute(
    sql`insert into activities (application_id, number, type, actor, subject, created_at)
        select ${owner.applicationId}, n, 'variable.created', '{}', '{}', now() from generate_series(4, 303) n`,
  )
  await platform.api.db.execute(sql`update applications set activity_number = 303 where id = ${owner.applicationId}`)
  const again = await follow(owner, { 'last-event-id': '3' })
  const missed = await again.next(300)
  expect(missed.map(({ id }) => Number(id))).toEqual(Array.from({ length: 300 }, (_, i) => i + 4))
  await setVariable(owner, 'LATE')
  expect((await again.next(1)).map(({ data }) => data.subject.key)).toEqual(['LATE'])
})

test('of a hundred at once each has its own number, and all arrive in order', async () => {
  const owner = await newOwner(platform)
  const { next } = await follow(owner)
  const made = await Promise.all(Array.from({ length: 100 }, (_, i) => setVariable(owner, `K${i}`)))
  expect(new Set(made.map(({ status }) => status))).toEqual(new Set([201]))
  const events = await next(100)
  expect(events.map(({ id }) => Number(id))).toEqual(Array.from({ length: 100 }, (_, i) => i + 1))
  expect(new Set(events.map(({ data }) => data.subject.key)).size).toBe(100)
})

test('what failed or was rolled back is never told', async () => {
  const owner = await newOwner(platform)
  const { next } = await follow(owner)
  await setVariable(owner, 'A')
  expect((await setVariable(owner, 'A')).status).toBe(409)
  await setVariable(owner, 'B')
  expect((await next(2)).map(({ id, data }) => [id, data.subject.key])).toEqual([
    ['1', 'A'],
    ['2', 'B'],
  ])
})

test('several processes tell the same, whichever did the work', async () => {
  const { db, close } = openDatabase(platform.databaseUrl, { name: 'other', max: 2, prepare: true })
  onTestFinished(close)
  const other = anotherFeed(db)
  const owner = await newOwner(platform)
  const here = await follow(owner)
  const there = eventsIn<Activity>(await other.watch(owner.applicationId, 0, async () => {}))
  await setVariable(owner, 'A')
  expect((await here.next(1))[0]?.data.subject.key).toBe('A')
  expect((await there.next()).value?.data.subject.key).toBe('A')
})

test('the cap of 20 holds over all processes, and of two at once for the last place one has it (D86)', async () => {
  const owner = await newOwner(platform)
  const [here, there] = [anotherFeed(), anotherFeed()]
  const watch = (feed: typeof here) => () =>
    feed
      .watch(owner.applicationId, 0, async () => {})
      .then(
        () => 'open',
        (error: Error) => error.message,
      )
  for (let n = 0; n < 19; n++) expect(await watch(n % 2 ? here : there)()).toBe('open')
  const racers = await holding(
    platform.databaseUrl,
    (held) =>
      held`select pg_advisory_xact_lock(${STREAM_SLOTS_LOCK_CLASS}, hashtext(${`activity:${owner.applicationId}`}))`,
    [watch(here), watch(there)],
  )
  expect(racers.toSorted()).toEqual(['The resource has 20 streams open already; close one first', 'open'])
  expect((await follow(owner)).answer.status).toBe(429)
})

test('the streams of a process that was killed stop counting once its lease is over (D86)', async () => {
  const owner = await newOwner(platform)
  await platform.api.db.execute(sql`
    insert into open_streams (id, resource, process_id, expires_at)
    select gen_random_uuid(), ${`activity:${owner.applicationId}`}, gen_random_uuid(), ${new Date(platform.clock.now().getTime() + 30_000).toISOString()}
    from generate_series(1, 20)`)
  expect((await follow(owner)).answer.status).toBe(429)
  platform.clock.advance(31_000)
  expect((await follow(owner)).answer.status).toBe(200)
  await discardLostStreams(platform.api)
  const left = await platform.api.db.execute(
    sql`select 1 from open_streams where resource = ${`activity:${owner.applicationId}`}`,
  )
  expect(left).toHaveLength(1)
})

test('a deleted key keeps its stream until its token expires, and loses it within a minute after that (D1, D86)', async () => {
  const quick = await startPlatform({ heartbeatMs: 200 })
  onTestFinished(() => quick.close())
  const owner = await newOwner(quick)
  const key = await newKey(quick, owner, ['network:applications:read'])
  const answer = await fetch(`${quick.apiUrl}/applications/${owner.applicationId}/activity/stream`, {
    headers: { authorization: `Bearer ${key.token}` },
  })
  let beats = 0
  const over = (async () => {
    for await (const chunk of answer.body as unknown as AsyncIterable<Uint8Array>)
      beats += Buffer.from(chunk).toString().split(': \n\n').length - 1
  })()
  await quick.call(owner.token, `DELETE /api-keys/${key.id}`)
  const atDeletion = beats
  // The stream's authority is checked at every fourth beat.
  await expect.poll(() => beats).toBeGreaterThan(atDeletion + 8)
  quick.clock.advance(301_000)
  const atExpiry = beats
  await over
  // It would otherwise have ended at the 60th beat.
  expect(beats).toBeLessThan(atExpiry + 20)
})

test('slots of open streams are renewed, also where their rows were lost; one that could not be released runs out (D86)', async () => {
  const { db } = platform.api
  const unable = Object.create(db, {
    delete: { value: () => ({ where: () => Promise.reject(new Error('away')) }) },
  }) as typeof db
  const slots = openStreamSlots({ db: unable, logger: createLogger('test', 'silent'), now: platform.clock.now }, 20)
  onTestFinished(() => slots.close())
  const resource = `activity:${randomUUID()}`
  const expiries = async () => {
    const rows = await db.execute<{ id: string; at: string }>(
      sql`select id, expires_at::text as at from open_streams where resource = ${resource} order by id`,
    )
    return new Map(rows.map(({ id, at: text }) => [id, text]))
  }
  const release = await slots.take(resource)
  const [released = ''] = [...(await expiries()).keys()]
  await slots.take(resource)
  release() // fails
  const [, open = ''] = [...(await expiries()).keys()]
  platform.clock.advance(10_000)
  const before = await expiries()
  await expect.poll(async () => (await expiries()).get(open)).not.toBe(before.get(open))
  await db.execute(sql`delete from open_streams where id = ${open}`)
  await expect.poll(async () => (await expiries()).has(open)).toBe(true)
  // The renewals since the clock moved have skipped it.
  const after = await expiries()
  const aheadMs = Date.parse(after.get(open) ?? '') - Date.parse(after.get(released) ?? '')
  expect(aheadMs).toBeGreaterThan(5_000)
})

test('HEAD opens no stream (D86)', async () => {
  const owner = await newOwner(platform)
  const path = `${platform.apiUrl}/applications/${owner.applicationId}/activity/stream`
  const head = await fetch(path, { method: 'HEAD', headers: { authorization: `Bearer ${owner.token}` } })
  expect([head.status, head.headers.get('content-type')]).toEqual([200, 'text/event-stream'])
  const rows = () =>
    platform.api.db.execute(sql`select 1 from open_streams where resource = ${`activity:${owner.applicationId}`}`)
  await expect.poll(async () => (await rows()).length).toBe(0)
})

test('a stream ends after 15 minutes of beats, and says when to come back (D86)', async () => {
  const feed = anotherFeed(platform.api.db, 5)
  const stream = await feed.watch(ana.applicationId, 1_000_000, async () => {})
  const chunks = await Array.fromAsync(stream as unknown as AsyncIterable<Uint8Array>)
  expect(Buffer.concat(chunks).toString()).toMatch(/^retry: \d+\n\n(: \n\n){59}retry: \d+\n\n$/)
})

test('a process that is stopping opens no stream: 503 (D86)', async () => {
  const feed = anotherFeed()
  feed.streamSlots.refuseNew()
  await expect(feed.watch(ana.applicationId, 0, async () => {})).rejects.toMatchObject({ status: 503 })
})

test('one stream too many is a 429 that waiting does not clear; a closed one makes room (A §6, §8)', async () => {
  const owner = await newOwner(platform)
  const streams = await Promise.all(Array.from({ length: 20 }, () => follow(owner)))
  expect(streams.map(({ answer }) => answer.status)).toEqual(Array<number>(20).fill(200))
  const { answer } = await follow(owner)
  expect(answer.status).toBe(429)
  expect(answer.headers.get('retry-after')).toBeNull()
  expect(await answer.json()).toEqual({ error: 'too_many_concurrent_streams', message: expect.any(String) as string })
  expect((await follow(ana)).answer.status).toBe(200)
  streams[0]?.close()
  await expect.poll(async () => (await follow(owner)).answer.status).toBe(200)
})

test.each(['x', '-1', '1.5', '1e3', '9'.repeat(16)])('Last-Event-ID %j is a 422 in the headers', async (id) => {
  const { answer } = await follow(ana, { 'last-event-id': id })
  expect(answer.status).toBe(422)
  expect(await answer.json()).toMatchObject({ on: 'headers', property: '/Last-Event-ID' })
})

test('a broken connection to the database is mended, and nothing is missed', async () => {
  const owner = await newOwner(platform)
  const { next } = await follow(owner)
  await setVariable(owner, 'A')
  await next(1)
  await platform.api.db.execute(
    sql`select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and application_name = 'notifications'`,
  )
  await setVariable(owner, 'B')
  await setVariable(owner, 'C')
  expect((await next(2)).map(({ data }) => data.subject.key)).toEqual(['B', 'C'])
})

test('heartbeats keep a quiet stream open, and it ends once its reader may no longer read', async () => {
  const feed = anotherFeed(platform.api.db, 5)
  let count = 0
  const stream = await feed.watch(ana.applicationId, 1_000_000, async () => {
    if (++count === 3) throw new NotFound('Application')
  })
  const chunks = await Array.fromAsync(stream as unknown as AsyncIterable<Uint8Array>)
  const text = Buffer.concat(chunks).toString()
  expect(text).toMatch(/^retry: \d+\n\n(: \n\n){12,13}retry: \d+\n\n$/)
})

test('a reader that stopped reading is dropped, and the others go on', async () => {
  const owner = await newOwner(platform)
  const feed = anotherFeed(platform.api.db, 100)
  const slow = (await feed.watch(owner.applicationId, 0, async () => {})).getReader()
  const fast = eventsIn(await feed.watch(owner.applicationId, 0, async () => {}))
  const subject = { type: 'variable', note: 'x'.repeat(10_000) }
  await platform.api.db.execute(
    sql`insert into activities (application_id, number, type, actor, subject, created_at)
        select ${owner.applicationId}, n, 'variable.created', '{}', ${JSON.stringify(subject)}, now() from generate_series(1, 300) n`,
  )
  await platform.api.db.execute(sql`select pg_notify('activity', ${owner.applicationId})`)
  for (let number = 1; number <= 300; number++) expect((await fast.next()).value?.id).toBe(String(number))
  await expect(slow.closed).rejects.toThrow('too slow')
})

test('a client that goes away frees its place; a shutdown ends streams and says when to come back', async () => {
  const owner = await newOwner(platform)
  const { port } = new URL(platform.apiUrl)
  const socket = connect(Number(port), 'localhost')
  let received = ''
  socket.on('data', (chunk: Buffer) => void (received += chunk.toString()))
  socket.write(
    `GET /applications/${owner.applicationId}/activity/stream HTTP/1.1\r\nHost: localhost:${port}\r\nAuthorization: Bearer ${owner.token}\r\n\r\n`,
  )
  await expect.poll(() => received).toContain('retry: ')
  platform.api.activityFeed.endStreams()
  await expect.poll(() => received).toMatch(/0\r\n\r\n$/)
  expect(received.match(/retry: \d+/g)).toHaveLength(2)
  socket.destroy()
})

test('what is older than 30 days is forgotten', async () => {
  const owner = await newOwner(platform)
  await setVariable(owner, 'OLD')
  await platform.api.db.execute(
    sql`update activities set created_at = created_at - interval '31 days' where application_id = ${owner.applicationId}`,
  )
  await setVariable(owner, 'NEW')
  await discardActivities(platform.api)
  const { next } = await follow(owner, { 'last-event-id': '0' })
  expect((await next(1)).map(({ id, data }) => [id, data.subject.key])).toEqual([['2', 'NEW']])
})
