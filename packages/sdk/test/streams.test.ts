import type { ServerResponse } from 'node:http'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { openDice } from '../../../services/api/test/dice.ts'
import {
  createChatCompletion,
  createResponse,
  follow,
  type Platform,
  stream,
  streamActivity,
  streamBuildLog,
  streamRequests,
  streamRuntimeLogs,
} from '../src/index.ts'
import { type Behaviour, json, startHostileServer } from './hostile-server.ts'

const id = '0199a3f0-5b7c-7cc0-9d3f-2f6f5c1b7a10'

beforeEach(() => void vi.spyOn(Math, 'random').mockReturnValue(0))
afterEach(() => void vi.restoreAllMocks())

/** Lets timers of one length end at once. */
function skipTimersOf(skippedMs: number): void {
  const real = globalThis.setTimeout
  vi.spyOn(globalThis, 'setTimeout').mockImplementation(((run: () => void, ms: number) =>
    real(run, ms === skippedMs ? 0 : ms)) as typeof setTimeout)
}

const open = (response: ServerResponse) => response.writeHead(200, { 'content-type': 'text/event-stream' })
const streamed =
  (text: string): Behaviour =>
  (response) =>
    open(response).end(text)
const event = (name: string, data: unknown, eventId?: string): string =>
  `${eventId === undefined ? '' : `id: ${eventId}\n`}event: ${name}\ndata: ${JSON.stringify(data)}\n\n`

/** Lines with characters of two and of four bytes, between comments and statuses. */
const lines = Array.from({ length: 12 }, (_, n) => ({ id: `line-${String(n).padStart(2, '0')}`, message: `é ${n} 🚀` }))
const textOf = (line: (typeof lines)[number]): string => `: \n\n${event('log', line, line.id)}`
const status = event('status', { status: 'BUILDING', failureReason: null })

/** A feed that goes on after the last id, and is cut for good after so many bytes of its first connection. */
function cutAfter(bytes: number): Behaviour {
  let isFirst = true
  return (response, { headers }) => {
    const last = headers['last-event-id']
    const rest = lines.filter((line) => last === undefined || line.id > String(last))
    const text = Buffer.from(`retry: 1\n\n${status}${rest.map(textOf).join('')}${event('end', {})}`)
    open(response)
    if (!isFirst) return response.end(text)
    isFirst = false
    return response.write(text.subarray(0, bytes), () => response.socket?.resetAndDestroy())
  }
}

test('a stream that is cut at any boundary of its events, and at 50 drawn bytes, loses and doubles nothing', async () => {
  const dice = openDice()
  const whole = Buffer.from(`retry: 1\n\n${status}${lines.map(textOf).join('')}${event('end', {})}`)
  const boundaries = [...whole.toString('latin1').matchAll(/\n\n/g)].map(({ index }) => index + 2)
  const drawn = Array.from({ length: 50 }, () => dice.integer(1, whole.length))
  for (const bytes of [0, ...boundaries.slice(0, -1), ...drawn]) {
    const { platform, requests } = await startHostileServer([cutAfter(bytes)])
    const seen: unknown[] = []
    for await (const happened of follow(streamBuildLog, platform, { id })) seen.push(happened)
    expect([bytes, seen]).toEqual([
      bytes,
      [
        { event: 'status', data: { status: 'BUILDING', failureReason: null } },
        ...lines.map((line) => ({ event: 'log', id: line.id, data: line })),
        { event: 'end', data: {} },
      ],
    ])
    const received = whole.subarray(0, bytes).toString('latin1')
    const [, known] = [...received.matchAll(/id: (line-\d+)\nevent: log\ndata: [^\n]*\n\n/g)].at(-1) ?? []
    expect(requests.map(({ headers }) => headers['last-event-id'])).toEqual([undefined, known])
  }
})

test('a stream whose server sends a line again passes it on once', async () => {
  const twice = lines.slice(0, 3).map(textOf).join('')
  const { platform } = await startHostileServer([streamed(twice), streamed(twice + event('end', {}))])
  const seen: string[] = []
  for await (const happened of follow(streamBuildLog, platform, { id })) seen.push(happened.id ?? happened.event)
  expect(seen).toEqual(['line-00', 'line-01', 'line-02', 'end'])
})

test('a stream goes on after the id that is given, and ends at a 204', async () => {
  const { platform, requests } = await startHostileServer([(response) => response.writeHead(204).end()])
  const seen: unknown[] = []
  for await (const happened of follow(streamBuildLog, platform, { id }, { lastEventId: 'line-05' })) seen.push(happened)
  expect([seen, requests.map(({ headers }) => headers['last-event-id'])]).toEqual([[], ['line-05']])
})

test('a gap is passed on, and the next connection takes a fresh token', async () => {
  const gap = event('gap', { missed: 3, isMore: false })
  const { platform, requests, exchanges } = await startHostileServer([
    streamed(event('request', { id: 'a' }, 'a')),
    json(401, { error: 'expired' }),
    streamed(gap),
  ])
  const seen: unknown[] = []
  for await (const happened of follow(streamRequests, platform, { id })) {
    seen.push(happened)
    if (happened.event === 'gap') break
  }
  expect(seen).toEqual([
    { event: 'request', id: 'a', data: { id: 'a' } },
    { event: 'gap', data: { missed: 3, isMore: false } },
  ])
  expect(requests.map(({ headers }) => headers.authorization)).toEqual([
    'Bearer token-1',
    'Bearer token-1',
    'Bearer token-2',
  ])
  expect(exchanges).toHaveLength(2)
})

test('a stream that is refused is an error with the sentence of its body', async () => {
  const { platform, requests } = await startHostileServer([json(404, { error: 'Deployment not found' })])
  await expect(follow(streamBuildLog, platform, { id }).next()).rejects.toMatchObject({
    status: 404,
    message: 'Deployment not found',
  })
  expect(requests).toHaveLength(1)
})

test('the time between connections is what the platform asks for, and doubles while it is away', async () => {
  vi.spyOn(Math, 'random').mockReturnValue(0.001)
  const waits = vi.spyOn(globalThis, 'setTimeout')
  const away = json(503, { error: 'away' })
  const { platform } = await startHostileServer([streamed('retry: 2000\n\n'), away, away, streamed(event('end', {}))])
  for await (const _ of follow(streamBuildLog, platform, { id }));
  expect(waits.mock.calls.map(([, ms = 0]) => ms).filter((ms) => ms > 0 && ms <= 8)).toEqual([2, 4, 8])
})

test('a stream that is silent for a minute is opened again', async () => {
  const silent: Behaviour = (response) => open(response).write(textOf(lines[0] as never))
  const { platform } = await startHostileServer([silent, streamed(event('end', {}))])
  const states: string[] = []
  const seen: string[] = []
  for await (const happened of follow(streamBuildLog, platform, { id }, { onState: (state) => states.push(state) })) {
    seen.push(happened.event)
    skipTimersOf(60_000)
  }
  expect([seen, states]).toEqual([
    ['log', 'end'],
    ['live', 'waiting', 'live'],
  ])
})

test('a silent stream tells each beat, so that a page knows how old its view is', async () => {
  let answer: ServerResponse | undefined
  const { platform } = await startHostileServer([(response) => (answer = open(response)).write(': \n\n')])
  let beats = 0
  // Each piece is sent once the one before has been told.
  const onBeat = () => (++beats < 3 ? answer?.write(': \n\n') : answer?.end(event('end', {})))
  const seen: string[] = []
  for await (const happened of follow(streamBuildLog, platform, { id }, { onBeat })) seen.push(happened.event)
  expect([beats, seen]).toEqual([4, ['end']])
})

const tooMany = json(429, { error: 'too_many_concurrent_streams', message: 'Too many' })

test('while too many streams are open the list is polled, and every line comes once', async () => {
  skipTimersOf(5_000)
  const listed = (count: number, state: string) => [
    tooMany,
    json(200, { status: state, failureReason: null }),
    json(200, { items: lines.slice(0, count) }),
  ]
  const { platform, requests } = await startHostileServer([...listed(2, 'BUILDING'), ...listed(3, 'ACTIVE')])
  const states: string[] = []
  const seen: string[] = []
  const options = { onState: (state: string) => states.push(state), onBeat: () => states.push('beat') }
  for await (const happened of follow(streamBuildLog, platform, { id }, options))
    seen.push(happened.id ?? happened.event)
  expect(seen).toEqual(['status', 'line-00', 'line-01', 'status', 'line-02', 'end'])
  expect(states).toEqual(['polling', 'beat', 'polling', 'beat'])
  expect(requests.map(({ path }) => path.replace(id, '…'))).toEqual(
    Array.from({ length: 2 }, () => [
      '/deployments/…/logs/stream',
      '/deployments/…',
      '/deployments/…/logs?limit=1000',
    ]).flat(),
  )
})

test('runtime lines are polled from the beginning of the stream, oldest first', async () => {
  skipTimersOf(5_000)
  const items = [{ id: 'b' }, { id: 'a' }]
  const { platform, requests } = await startHostileServer([tooMany, json(200, { items })])
  const seen: string[] = []
  for await (const happened of follow(streamRuntimeLogs, platform, { id, level: 'ERROR' })) {
    seen.push(happened.id ?? '')
    if (seen.length === 2) break
  }
  expect(seen).toEqual(['a', 'b'])
  expect(requests[1]?.path).toMatch(/\/runtime-logs\?level=ERROR&from=\d{4}-[^&]+Z&limit=1000$/)
})

test('activity is polled from the beginning of the stream or after the id that is given, oldest first, by numbers', async () => {
  skipTimersOf(5_000)
  const happenedAt = (n: number, createdAt: string) => ({ id: String(n), type: 'variable.created', createdAt })
  const [before, after] = ['2020-01-01T00:00:00.000Z', '2100-01-01T00:00:00.000Z']
  const items = [happenedAt(11, after), happenedAt(10, after), happenedAt(9, before), happenedAt(8, before)]
  const follows = async (lastEventId?: string) => {
    const { platform, requests } = await startHostileServer([
      tooMany,
      json(200, { items: items.slice(1) }),
      tooMany,
      json(200, { items }),
      (response) => response.writeHead(204).end(),
    ])
    const seen: unknown[] = []
    for await (const happened of follow(streamActivity, platform, { id }, { lastEventId })) seen.push(happened)
    return { seen, paths: requests.map(({ path }) => path.replace(id, '…')) }
  }
  const events = items.map((data) => ({ event: data.type, id: data.id, data })).toReversed()
  const [stream, list] = ['/applications/…/activity/stream', '/applications/…/activity?limit=1000']
  expect(await follows()).toEqual({ seen: events.slice(2), paths: [stream, list, stream, list, stream] })
  expect((await follows('8')).seen).toEqual(events.slice(1))
})

test('a list that is away while it is polled is bridged as a stream is, and one that is refused is an error', async () => {
  skipTimersOf(5_000)
  const away = json(503, { error: 'away' })
  const listed = json(200, { items: [{ id: '2', type: 'variable.created' }] })
  // The call is repeated three times.
  const script = [
    tooMany,
    away,
    away,
    away,
    away,
    tooMany,
    listed,
    tooMany,
    json(404, { error: 'Application not found' }),
  ]
  const { platform } = await startHostileServer(script)
  const told: string[] = []
  const options = {
    lastEventId: '1',
    onState: (state: string) => told.push(state),
    onBeat: () => told.push('beat'),
  }
  const following = async () => {
    for await (const { id: eventId = '' } of follow(streamActivity, platform, { id }, options)) told.push(eventId)
  }
  await expect(following()).rejects.toMatchObject({ status: 404, message: 'Application not found' })
  expect(told).toEqual(['polling', 'waiting', 'polling', 'beat', '2', 'polling'])
})

test('a signal ends a stream that waits for its next event', async () => {
  const leaving = new AbortController()
  const reason = new Error('enough')
  const { platform } = await startHostileServer([(response) => open(response).write(status)])
  const events = follow(streamBuildLog, platform, { id }, { signal: leaving.signal })
  await events.next()
  const next = events.next()
  leaving.abort(reason)
  await expect(next).rejects.toBe(reason)
})

const chunk = (content: string) => `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content } }] })}\n\n`
const body = { model: 'local/echo', messages: [{ role: 'user', content: 'Hi' }] }
const completion = (platform: Platform) => stream(createChatCompletion, platform, { body } as never)
const contentOf = async (chunks: AsyncIterable<{ choices: { delta: { content?: string | null } }[] }>) => {
  let text = ''
  for await (const { choices } of chunks) text += choices[0]?.delta.content ?? ''
  return text
}

test('a completion comes word by word, and `stream` is set', async () => {
  const { platform, requests } = await startHostileServer([streamed(`${chunk('Hel')}${chunk('lo')}data: [DONE]\n\n`)])
  expect(await contentOf(completion(platform))).toBe('Hello')
  expect(JSON.parse(String(requests[0]?.body))).toEqual({ ...body, stream: true })
})

test.each<[string, Behaviour, RegExp]>([
  ['ends without its mark', streamed(chunk('Hel')), /ended before its end/],
  [
    'is cut',
    (response) => open(response).write(chunk('Hel'), () => response.socket?.resetAndDestroy()),
    /stream was cut/,
  ],
  [
    'brings an error',
    streamed(`${chunk('Hel')}data: ${JSON.stringify({ error: { message: 'The provider failed', code: 'x' } })}\n\n`),
    /The provider failed/,
  ],
])('a completion that %s is an error', async (_, behaviour, message) => {
  const { platform, requests } = await startHostileServer([behaviour])
  await expect(contentOf(completion(platform))).rejects.toThrow(message)
  expect(requests).toHaveLength(1)
})

test('a streamed response ends with the event that says so', async () => {
  const text = ['response.created', 'response.completed'].map((type) => event(type, { type })).join('')
  const { platform } = await startHostileServer([streamed(text)])
  const types: unknown[] = []
  const params = { body: { model: 'local/echo', input: 'Hi' } }
  for await (const { type } of stream(createResponse, platform, params)) types.push(type)
  expect(types).toEqual(['response.created', 'response.completed'])
})
