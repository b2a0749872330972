import { randomUUID } from 'node:crypto'
import { connect } from 'node:net'
import { NotFound } from '@platform/errors/api-error'
import { openDatabase } from '@platform/runtime/database'
import { createLogger } from '@platform/runtime/logger'
import { createDatabase } from '@platform/testkit/databases'
import { startPlatform, type TestPlatform } from '@platform/testkit/platform'
import { sql } from 'drizzle-orm'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { newKey, newOwner, type Owner } from '../../../test/scenario.ts'
import { openActivityFeed } from './feed.ts'
import { discardActivities } from './record.ts'

let platform: TestPlatform
let databaseUrl: string
let ana: Owner
beforeAll(async () => {
  databaseUrl = (await createDatabase('api')).url
  platform = await startPlatform({ databases: { api: databaseUrl, idp: (await createDatabase('idp')).url } })
  ana = await newOwner(platform)
})
afterAll(() => platform.close())

interface Event {
  id: string
  event: string
  data: { id: string; type: string; subject: Record<string, unknown>; actor: unknown; createdAt: string }
}

/** Reads server-sent events one by one; comments and `retry` are passed over. */
async function* eventsIn(stream: ReadableStream<Uint8Array>): AsyncGenerator<Event, undefined> {
  let text = ''
  const decoder = new TextDecoder()
  for await (const chunk of stream as unknown as AsyncIterable<Uint8Array>) {
    text += decoder.decode(chunk, { stream: true })
    for (let end = text.indexOf('\n\n'); end !== -1; end = text.indexOf('\n\n')) {
      const fields = Object.fromEntries(
        text
          .slice(0, end)
          .split('\n')
          .map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 2)]),
      ) as Record<string, string>
      text = text.slice(end + 2)
      if (fields.data !== undefined)
        yield { id: fields.id ?? '', event: fields.event ?? '', data: JSON.parse(fields.data) as Event['data'] }
    }
  }
}

/** Opens the stream over HTTP; it is closed at the end of the test. */
async function follow(owner: Pick<Owner, 'token' | 'applicationId'>, headers: Record<string, string> = {}) {
  const gone = new AbortController()
  const answer = await fetch(`${platform.apiUrl}/applications/${owner.applicationId}/activity/stream`, {
    headers: { authorization: `Bearer ${owner.token}`, ...headers },
    signal: gone.signal,
  })
  const close = () => gone.abort()
  onTestFinished(close)
  const events = answer.status === 200 && answer.body ? eventsIn(answer.body) : undefined
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
  const logger = createLogger('test', 'silent')
  const { db, close } = openDatabase(databaseUrl, { name: 'other', max: 2, prepare: true })
  const other = openActivityFeed({ db, logger, databaseUrl })
  const owner = await newOwner(platform)
  const here = await follow(owner)
  const there = eventsIn(other.watch(owner.applicationId, 0, async () => {}))
  await setVariable(owner, 'A')
  expect((await here.next(1))[0]?.data.subject.key).toBe('A')
  expect((await there.next()).value?.data.subject.key).toBe('A')
  await other.close()
  await close()
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
    sql`select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and application_name = 'listen activity'`,
  )
  await setVariable(owner, 'B')
  await setVariable(owner, 'C')
  expect((await next(2)).map(({ data }) => data.subject.key)).toEqual(['B', 'C'])
})

test('heartbeats keep a quiet stream open, and it ends once its reader may no longer read', async () => {
  const feed = openActivityFeed({ ...platform.api, logger: createLogger('test', 'silent'), databaseUrl }, 5)
  let asked = 0
  const stream = feed.watch(ana.applicationId, 1_000_000, async () => {
    if (++asked === 3) throw new NotFound('Application')
  })
  const chunks = await Array.fromAsync(stream as unknown as AsyncIterable<Uint8Array>)
  const text = Buffer.concat(chunks).toString()
  expect(text).toMatch(/^retry: \d+\n\n(: \n\n){12,13}retry: \d+\n\n$/)
  await feed.close()
})

test('a reader that stopped reading is dropped, and the others go on', async () => {
  const owner = await newOwner(platform)
  const feed = openActivityFeed({ ...platform.api, logger: createLogger('test', 'silent'), databaseUrl }, 100)
  const slow = feed.watch(owner.applicationId, 0, async () => {}).getReader()
  const fast = eventsIn(feed.watch(owner.applicationId, 0, async () => {}))
  const subject = { type: 'variable', note: 'x'.repeat(10_000) }
  await platform.api.db.execute(
    sql`insert into activities (application_id, number, type, actor, subject, created_at)
        select ${owner.applicationId}, n, 'variable.created', '{}', ${JSON.stringify(subject)}, now() from generate_series(1, 300) n`,
  )
  await platform.api.db.execute(sql`select pg_notify('activity', ${owner.applicationId})`)
  for (let number = 1; number <= 300; number++) expect((await fast.next()).value?.id).toBe(String(number))
  await expect.poll(() => slow.closed.catch((error: Error) => error.message), { timeout: 3_000 }).toMatch('too slow')
  await feed.close()
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
