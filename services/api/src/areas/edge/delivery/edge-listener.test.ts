import { once } from 'node:events'
import { createServer as createHttpServer, type IncomingMessage, request } from 'node:http'
import { type AddressInfo, connect, createServer } from 'node:net'
import { pipeline } from 'node:stream'
import { newId } from '@platform/runtime/new-id'
import { startPlatform, type TestEdge, type TestPlatform } from '@platform/testing/platform'
import { eq, sql } from 'drizzle-orm'
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { visit } from '../../../../test/deploy.ts'
import { newOwner, type Owner } from '../../../../test/scenario.ts'
import { deployStickySite, openEvents, openSocket } from '../../../../test/sticky-site.ts'
import { edges } from '../../cluster/edges/table.ts'
import { runtimeLogs } from '../../observe/runtime-logs/table.ts'
import { stickyPins } from '../sticky-sessions/table.ts'
import { FAILURE_HEADER, LEASE_HEADER, LEASES_PATH, SIGNATURE_HEADER } from './edge-messages.ts'

let platform: TestPlatform
let second: TestEdge
let ana: Owner
let site: Awaited<ReturnType<typeof deployStickySite>>
beforeAll(async () => {
  platform = await startPlatform({
    hasWorker: true,
    env: { DEFAULT_PLAN: 'pro', FUNCTION_FIRST_BYTE_MS: '2000', FUNCTION_SILENT_MS: '2000' },
  })
  second = await platform.addEdge()
  ana = await newOwner(platform)
  site = await deployStickySite(platform, ana)
})
afterAll(() => platform.close())

/** A sticky path whose pin the first edge owns. */
async function pinnedHere(options = site, endpoint?: string, key = `key ${Math.random()}`): Promise<string> {
  await options.who(await options.mint({ key }))
  return options.mint({ key, ...(endpoint !== undefined && { endpoint }) })
}

async function linesOf(deploymentId: string): Promise<string[]> {
  for (const { api } of [platform, second]) await api.runtimeLog.flush()
  const lines = await platform.api.db.select().from(runtimeLogs).where(eq(runtimeLogs.deploymentId, deploymentId))
  return lines.map(({ message }) => message)
}

test('an edge that is about to stop closes the connections of other edges as it answers, like those of visitors', async () => {
  const edge = await platform.addEdge()
  onTestFinished(() => edge.stop())
  const { membership, db } = edge.api
  const [row] = await db.select().from(edges).where(eq(edges.id, membership.id))
  const ways = async () => {
    const answers = await Promise.all([edge.edgeUrl, row?.internalUrl ?? ''].map((url) => fetch(url)))
    return answers.map(({ headers }) => headers.get('connection'))
  }
  expect(await ways()).toEqual(['keep-alive', 'keep-alive'])
  edge.drain()
  expect(await ways()).toEqual(['close', 'close'])
})

describe('the internal listener', () => {
  let url: string
  beforeAll(async () => {
    const { membership, db } = platform.api
    const [row] = await db.select().from(edges).where(eq(edges.id, membership.id))
    url = row?.internalUrl ?? ''
  })

  interface Message {
    edgeId: string
    sentAt: number
    deploymentId: string
    path: string
    keyHash: string
    expiresAt: number
  }
  const messageOf = (change: Partial<Message> = {}): Message => ({
    edgeId: platform.api.membership.id,
    sentAt: platform.clock.now().getTime(),
    deploymentId: site.id,
    path: 'index',
    keyHash: Buffer.alloc(16, 7).toString('base64url'),
    expiresAt: platform.clock.now().getTime() + 60_000,
    ...change,
  })
  const ask = (body: string, signature: string) =>
    fetch(url + LEASES_PATH, { method: 'POST', body, headers: { [SIGNATURE_HEADER]: signature } })
  const askSigned = (message: unknown) => {
    const body = JSON.stringify(message)
    return ask(body, platform.api.edgeSigner.sign(body))
  }

  test('promises a slot to who signs, for one request', async () => {
    const answer = await askSigned(messageOf())
    expect(answer.status).toBe(201)
    const { lease } = (await answer.json()) as { lease: string }
    const use = () => fetch(`${url}/who`, { headers: { [LEASE_HEADER]: lease } })
    expect(await (await use()).json()).toMatchObject({ url: '/who' })
    const again = await use()
    expect([again.status, again.headers.get(FAILURE_HEADER)]).toEqual([502, 'edge_failed'])
  })

  test.each([
    ['without a signature', async () => fetch(url + LEASES_PATH, { method: 'POST', body: '{}' })],
    [
      'with a signature of something else',
      async () => ask(JSON.stringify(messageOf()), platform.api.edgeSigner.sign('{}')),
    ],
    ['with one of another purpose', async () => ask('{}', platform.api.accessSigner.sign('{}'))],
    ['of the day before', async () => askSigned(messageOf({ sentAt: platform.clock.now().getTime() - 61_000 }))],
    ['of tomorrow', async () => askSigned(messageOf({ sentAt: platform.clock.now().getTime() + 61_000 }))],
  ])('refuses a request %s', async (_, send) => {
    expect((await send()).status).toBe(401)
  })

  test('is no other edge', async () => {
    expect((await askSigned(messageOf({ edgeId: second.api.membership.id }))).status).toBe(421)
  })

  test('does not answer for a pin of another edge', async () => {
    const path = await site.mint({ key: 'of the second' })
    await site.who(path, second)
    const { db, membership } = second.api
    const [pin] = await db.select().from(stickyPins).where(eq(stickyPins.edgeId, membership.id))
    const keyHash = pin?.keyHash.toString('base64url') ?? ''
    expect((await askSigned(messageOf({ keyHash }))).status).toBe(421)
  })

  test.each([
    ['GET', '/'],
    ['POST', '/who'],
    ['GET', LEASES_PATH],
  ])('knows nothing else: %s %s', async (method, path) => {
    expect((await fetch(url + path, { method })).status).toBe(404)
  })

  test('reads no long message', async () => {
    expect((await ask('x'.repeat(20_000), 'a.b')).status).toBe(413)
  })

  test('takes back what was promised and not asked for, and what was asked for and answered', async () => {
    const path = await pinnedHere()
    for (let n = 0; n < 210; n++) await site.who(path, second)
    const keyHash = path.split('.').at(-2) ?? ''
    const unused = await Promise.all(Array.from({ length: 200 }, () => askSigned(messageOf({ keyHash }))))
    expect(new Set(unused.map(({ status }) => status))).toEqual(new Set([201]))
    const full = await visit(second, site.host, path)
    expect([full.status, full.headers['x-platform-error']]).toEqual([503, 'function_overloaded'])
    await expect.poll(async () => (await visit(second, site.host, path)).status).toBe(200)
  })

  test('keeps a slot warm for as long as the URL is good that the other edge was asked by', async () => {
    const key = 'for a day'
    await pinnedHere(site, undefined, key)
    const path = await site.mint({ key, expiresInSeconds: 86_400 })
    const acquire = vi.spyOn(platform.api.functions, 'acquire')
    onTestFinished(() => acquire.mockRestore())
    await site.who(path, second)
    expect(acquire.mock.calls.map(([deploymentId, , pin]) => [deploymentId, (pin?.forMs ?? 0) > 86_000_000])).toEqual([
      [site.id, true],
    ])
  })

  test('is on this machine alone unless it is told its address', () => {
    expect(new URL(url).hostname).toBe('127.0.0.1')
  })
})

describe('what goes wrong behind another edge', () => {
  const code = (answer: { status: number; headers: Record<string, unknown> }) => [
    answer.status,
    answer.headers['x-platform-error'],
  ]

  test('a Function that says nothing: 504, and one line in its log', async () => {
    const quiet = await deployStickySite(platform, ana)
    // So that the asked edge knows whose log to write.
    await quiet.who('/who', second)
    const path = await pinnedHere(quiet, '/hold')
    expect(code(await visit(second, quiet.host, path))).toEqual([504, 'function_timeout'])
    expect(await linesOf(quiet.id)).toEqual(['It sent no byte of an answer for 2 s.'])
  })

  test('a Function that ends before it answers: 502', async () => {
    const ending = await deployStickySite(platform, ana)
    expect(code(await visit(second, ending.host, await pinnedHere(ending, '/exit')))).toEqual([502, 'function_crashed'])
    expect((await linesOf(ending.id)).filter((line) => line.startsWith('Crashed'))).toHaveLength(1)
  })

  test('a Function that does not start again, whatever it says about that: 502', async () => {
    const broken = await deployStickySite(platform, ana)
    const key = 'broken'
    const path = await pinnedHere(broken, '/who', key)
    await visit(platform, broken.host, await broken.mint({ key, endpoint: '/break' }))
    expect(code(await visit(second, broken.host, path))).toEqual([502, 'function_crashed'])
  })

  test('a Function that ends in the middle of its answer: it is cut off', async () => {
    const ending = await deployStickySite(platform, ana)
    const key = 'cut'
    const stream = await openEvents(second, ending.host, await pinnedHere(ending, '/events', key))
    await visit(platform, ending.host, await ending.mint({ key, endpoint: '/exit' }))
    await expect(stream.ended).resolves.toBeUndefined()
  })

  test('a body that does not come: 408', async () => {
    const path = await pinnedHere()
    const headers = { host: site.host, 'content-length': 1_000 }
    const sent = request({ port: new URL(second.edgeUrl).port, host: 'localhost', method: 'POST', path, headers })
    sent.on('error', () => {})
    sent.write('a')
    const [answer] = (await once(sent, 'response')) as [IncomingMessage]
    expect(answer.statusCode).toBe(408)
    sent.destroy()
  })

  test('an answer that the Function calls a failure of the platform is its answer', async () => {
    const path = await pinnedHere(site, '/forged')
    const answer = await visit(second, site.host, path)
    expect(answer.status).toBe(200)
    expect(answer.headers[FAILURE_HEADER]).toBeUndefined()
  })

  test('a long answer to a request for a WebSocket comes whole, and leaves no listeners behind', async () => {
    const warnings: Error[] = []
    const onWarning = (warning: Error) => void warnings.push(warning)
    process.on('warning', onWarning)
    onTestFinished(() => void process.off('warning', onWarning))
    const headers = { connection: 'upgrade', upgrade: 'websocket' }
    const answer = await visit(second, site.host, await pinnedHere(site, '/refusing'), { headers })
    expect([answer.status, answer.text.length]).toEqual([426, 20_000_000])
    expect(warnings.map(({ message }) => message)).toEqual([])
  })

  test('a visitor who takes nothing holds the Function back, and no edge keeps what it sends', async () => {
    const key = 'slow'
    const path = await pinnedHere(site, '/long', key)
    const sent = request({ port: new URL(second.edgeUrl).port, host: 'localhost', path, headers: { host: site.host } })
    const [answer] = (await once(sent.end(), 'response')) as [IncomingMessage]
    const counted: number[] = []
    const count = async () => {
      counted.push(Number((await visit(platform, site.host, await site.mint({ key, endpoint: '/sent' }))).text))
      return counted.length >= 5 && new Set(counted.slice(-5)).size === 1
    }
    await expect.poll(count, { interval: 100 }).toBe(true)
    expect(counted.at(-1)).toBeLessThan(60)
    let bytes = 0
    for await (const chunk of answer as AsyncIterable<Buffer>) bytes += chunk.length
    expect(bytes).toBe(100_000_000)
  })

  test('a visitor who leaves is seen to leave by the Function', async () => {
    const key = 'leaving'
    const stream = await openEvents(second, site.host, await pinnedHere(site, '/events', key))
    const count = async () => (await visit(platform, site.host, await site.mint({ key, endpoint: '/streams' }))).text
    expect(await count()).toBe('1')
    stream.close()
    await expect.poll(count).toBe('0')
  })
})

test('an edge with an address of IPv6 is reached, by WebSockets too', async () => {
  const third = await platform.addEdge()
  const { db, membership } = third.api
  const [row] = await db.select().from(edges).where(eq(edges.id, membership.id))
  const port = Number(new URL(row?.internalUrl ?? '').port)
  const bridge = createServer((socket) => void pipeline(socket, connect(port, '127.0.0.1'), socket, () => {}))
  onTestFinished(() => void bridge.close())
  await once(bridge.listen(0, '::1'), 'listening')
  const internalUrl = `http://[::1]:${(bridge.address() as AddressInfo).port}`
  await db.update(edges).set({ internalUrl }).where(eq(edges.id, membership.id))
  const path = await site.mint({ key: 'IPv6' })
  const { instance } = await site.who(path, third)
  expect((await site.who(path)).instance).toBe(instance)
  const socket = await openSocket(platform, site.host, path)
  expect(socket.instance).toBe(instance)
  socket.close()
  await third.stop()
})

test('who took the address of an edge is sent nothing of a visitor', async () => {
  const third = await platform.addEdge()
  const { db, membership } = third.api
  const path = await site.mint({ key: 'impostor' })
  await site.who(path, third)
  const lease = { lease: 'x', slot: 0, instance: newId(), isRestarted: false }
  const seen: (string | undefined)[] = []
  const impostor = createHttpServer(({ url }, answer) => {
    seen.push(url)
    // Its pins move from now on.
    void third.stop().then(() => answer.writeHead(201).end(JSON.stringify(lease)))
  })
  onTestFinished(() => void impostor.close())
  await once(impostor.listen(0, '127.0.0.1'), 'listening')
  const internalUrl = `http://127.0.0.1:${(impostor.address() as AddressInfo).port}`
  await db.update(edges).set({ internalUrl }).where(eq(edges.id, membership.id))
  expect(await site.who(path)).toMatchObject({ isRestarted: true })
  expect(seen).toEqual([LEASES_PATH])
})

describe('leases of edges', () => {
  test('a pin moves once the lease of its edge has lapsed, and that one does not answer for it any more', async () => {
    const third = await platform.addEdge()
    const path = await site.mint({ key: 'lapsed' })
    const before = await site.who(path, third)
    const { db, membership } = third.api
    // As when a process hangs: nothing renews the lease, and its memory is outdated.
    await third.api.membership.leave()
    await db.execute(
      sql`insert into edges values (${membership.id}, 'http://127.0.0.1:1', clock_timestamp() - interval '1 second')`,
    )
    const after = await site.who(path)
    expect(after.instance).not.toBe(before.instance)
    expect(after.isRestarted).toBe(true)
    expect((await site.who(path, third)).instance).toBe(after.instance)
  })

  test('an edge that has left takes no pin, whoever asks', async () => {
    const third = await platform.addEdge()
    const { db, membership } = third.api
    const [row] = await db.select().from(edges).where(eq(edges.id, membership.id))
    await membership.leave()
    const message = {
      edgeId: membership.id,
      sentAt: platform.clock.now().getTime(),
      deploymentId: site.id,
      path: 'index',
      keyHash: Buffer.alloc(16, 8).toString('base64url'),
      expiresAt: platform.clock.now().getTime() + 60_000,
    }
    const body = JSON.stringify(message)
    const headers = { [SIGNATURE_HEADER]: third.api.edgeSigner.sign(body) }
    expect((await fetch(`${row?.internalUrl}${LEASES_PATH}`, { method: 'POST', body, headers })).status).toBe(421)
    expect(await db.$count(stickyPins, eq(stickyPins.edgeId, membership.id))).toBe(0)
  })

  test('an edge that lives and cannot be reached keeps its pins: 503 after a while', { timeout: 40_000 }, async () => {
    const third = await platform.addEdge()
    const path = await site.mint({ key: 'unreachable' })
    await site.who(path, third)
    const { db, membership } = third.api
    await db.execute(sql`update edges set internal_url = 'http://127.0.0.1:1' where id = ${membership.id}`)
    const answer = await visit(platform, site.host, path)
    expect(answer.status).toBe(503)
    expect((await site.who(path, third)).isRestarted).toBe(false)
  })

  test('a pin that outlived the database is written down once that is back', async () => {
    const key = 'outage'
    const before = await site.who(await site.mint({ key, expiresInSeconds: 60 }))
    const longer = await site.mint({ key, expiresInSeconds: 86_400 })
    const keyHash = Buffer.from(longer.split('.').at(-2) ?? '', 'base64url')
    const { db, now } = platform.api
    await db.execute(
      sql`create function refuse() returns trigger language plpgsql as 'begin raise exception ''refused''; end'`,
    )
    await db.execute(sql`create trigger refused before insert or update on sticky_pins execute function refuse()`)
    const meanwhile = await site.who(longer)
    await db.execute(sql`drop trigger refused on sticky_pins`)
    expect(meanwhile.instance).toBe(before.instance)
    const lastsOf = async () => {
      await site.who(longer)
      const [pin] = await db.select().from(stickyPins).where(eq(stickyPins.keyHash, keyHash))
      return pin ? pin.expiresAt.getTime() - now().getTime() : 0
    }
    await expect.poll(lastsOf).toBeGreaterThan(86_000_000)
  })
})
