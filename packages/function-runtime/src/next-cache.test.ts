import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { type FakeEdge, openFakeEdge } from '../test/fake-edge.ts'
import { offerNextCache } from './launcher/next-cache.ts'
import { keepPagesHere } from './launcher/next-page-headers.ts'
import { RequestScope, scopes } from './launcher/request-scope.ts'

const symbol = Symbol.for('@next/cache-handlers')

interface Found {
  value: unknown
  lastModified: number
  cacheControl?: unknown
}
interface FetchCache {
  get(name: string, context: object): Promise<Found | null>
  set(name: string, value: unknown, context: object): Promise<void>
  revalidateTag(tags: string | string[], durations?: { expire?: number }): Promise<void>
}
interface Entry {
  value: ReadableStream<Uint8Array>
  tags: string[]
  stale: number
  timestamp: number
  expire: number
  revalidate: number
}
interface CacheHandler {
  get(name: string, softTags: string[]): Promise<Entry | undefined>
  set(name: string, entry: Promise<Entry>): Promise<void>
  refreshTags(): Promise<void>
  getExpiration(tags: string[]): Promise<number>
  updateTags(tags: string[], durations?: { expire?: number }): Promise<void>
}
interface Handlers {
  FetchCache: new (options: object) => FetchCache
  DefaultCache: CacheHandler
  RemoteCache: CacheHandler
}

let folder: string
let edge: FakeEdge
let warned: ReturnType<typeof vi.spyOn>
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'nc-'))
  edge = await openFakeEdge(join(folder, 'cache.sock'))
  warned = vi.spyOn(console, 'warn').mockImplementation(() => {})
})
afterEach(async () => {
  edge.close()
  warned.mockRestore()
  vi.useRealTimers()
  delete (globalThis as Record<symbol, unknown>)[symbol]
  await rm(folder, { recursive: true })
})

/** The handlers that Next.js would find in another slot. */
function openSlot(builtAt?: number, handler = join(folder, 'index.js')): Handlers {
  offerNextCache({ cacheSocketPath: join(folder, 'cache.sock'), handler, builtAt })
  const handlers = (globalThis as Record<symbol, unknown>)[symbol] as Handlers
  delete (globalThis as Record<symbol, unknown>)[symbol]
  return handlers
}
/** Runs work within a separate request. */
const inRequest = <T>(work: () => Promise<T>): Promise<T> =>
  scopes.run(new RequestScope({ headers: {}, rawHeaders: [] } as unknown as IncomingMessage), work)

const FETCH = { kind: 'FETCH' }
const result = (body: string) => ({ kind: 'FETCH', data: { body, status: 200 }, revalidate: 60 })
const getFetched = ({ FetchCache: Cache }: Handlers, name: string, more: object = {}) =>
  inRequest(() => new Cache({}).get(name, { ...FETCH, ...more }))
/** Fetches a missing value, as a request does. */
const fetchAnew = ({ FetchCache: Cache }: Handlers, name: string, body: string, tags: string[] = []) =>
  inRequest(async () => {
    const cache = new Cache({})
    await cache.get(name, { ...FETCH, tags })
    await cache.set(name, result(body), { fetchCache: true, tags })
  })
const revalidate = ({ FetchCache: Cache }: Handlers, tags: string | string[], durations?: { expire?: number }) =>
  inRequest(() => new Cache({}).revalidateTag(tags, durations))

/** Stops both clocks of this process, the edge's too, at the same whole millisecond until the test ends, and returns it. */
function stopClocks(): number {
  const elapsedMs = Math.ceil(performance.now())
  const nowMs = Math.floor(performance.timeOrigin + elapsedMs)
  const clocks = [vi.spyOn(performance, 'now').mockReturnValue(elapsedMs), vi.spyOn(Date, 'now').mockReturnValue(nowMs)]
  onTestFinished(() => clocks.forEach((clock) => clock.mockRestore()))
  return nowMs
}

const streamOf = (content: string) =>
  new ReadableStream<Uint8Array>({
    start(controller) {
      controller.enqueue(Buffer.from(content))
      controller.close()
    },
  })
const entryOf = (content: string, more: Partial<Entry> = {}): Entry => ({
  value: streamOf(content),
  tags: [],
  stale: 30,
  timestamp: performance.timeOrigin + performance.now(),
  expire: 3_600,
  revalidate: 60,
  ...more,
})
const textOf = async (entry: Entry | undefined) => entry && text(entry.value as never)

test('nothing is offered where the edge keeps nothing, nor opened before somebody asks', async () => {
  offerNextCache({ cacheSocketPath: join(folder, 'other.sock'), handler: '/', builtAt: undefined })
  expect(symbol in globalThis).toBe(false)
  offerNextCache({ cacheSocketPath: join(folder, 'cache.sock'), handler: '/', builtAt: undefined })
  expect(symbol in globalThis).toBe(true)
  await sleep(20)
  expect(edge.asked).toEqual([])
})

describe('results of fetch', () => {
  test('are found in another slot, and the second time without asking the edge for them', async () => {
    const nowMs = stopClocks()
    const [one, other] = [openSlot(), openSlot()]
    await fetchAnew(one, 'a', 'hello', ['posts'])
    expect((await getFetched(other, 'a'))?.value).toEqual(result('hello'))
    edge.asked = []
    const entry = await getFetched(other, 'a')
    expect(entry?.value).toEqual(result('hello'))
    expect(entry?.lastModified).toBe(nowMs)
    expect((await getFetched(one, 'a'))?.value).toEqual(result('hello'))
    expect(edge.asked).toEqual(['GET /changes', 'GET /changes'])
  })

  test('say when they were made whatever the clock of the edge says', async () => {
    edge.clockMs = 86_400_000
    const nowMs = stopClocks()
    const slot = openSlot()
    await fetchAnew(slot, 'a', 'hello')
    expect((await getFetched(slot, 'a'))?.lastModified).toBe(nowMs)
  })

  test('that another slot replaced are not shown any more', async () => {
    const [one, other] = [openSlot(), openSlot()]
    await fetchAnew(one, 'a', 'old')
    await getFetched(other, 'a')
    await fetchAnew(one, 'a', 'new')
    expect((await getFetched(other, 'a'))?.value).toEqual(result('new'))
  })

  test('that were not there are asked for once, until there are some', async () => {
    const [one, other] = [openSlot(), openSlot()]
    expect(await getFetched(other, 'a')).toBeNull()
    edge.asked = []
    expect(await getFetched(other, 'a')).toBeNull()
    expect(edge.asked).toEqual(['GET /changes'])
    await fetchAnew(one, 'a', 'hello')
    expect((await getFetched(other, 'a'))?.value).toEqual(result('hello'))
  })

  test.each([
    ['a tag of theirs', { tags: ['posts'] }],
    ['a tag of the path', { softTags: ['_N_T_/posts'] }],
  ])('are gone in every slot once %s was revalidated', async (_, context) => {
    const [one, other] = [openSlot(), openSlot()]
    await fetchAnew(one, 'a', 'hello')
    expect(await getFetched(other, 'a', context)).not.toBeNull()
    await revalidate(one, ['posts', '_N_T_/posts'])
    expect(await getFetched(other, 'a', context)).toBeNull()
    await fetchAnew(other, 'a', 'again')
    expect((await getFetched(one, 'a', context))?.value).toEqual(result('again'))
  })

  test('that were stored with a tag are gone once it was revalidated, whoever asks', async () => {
    const slot = openSlot()
    await fetchAnew(slot, 'a', 'hello', ['posts'])
    await revalidate(slot, 'posts')
    expect(await getFetched(slot, 'a')).toBeNull()
  })

  test('are shown while they are made anew, for as long as the revalidation said', async () => {
    const slot = openSlot()
    await fetchAnew(slot, 'a', 'hello', ['posts'])
    await fetchAnew(slot, 'b', 'hello', ['later'])
    await revalidate(slot, 'posts', {})
    await revalidate(slot, 'later', { expire: 60 })
    // Next.js uses the age as it is, and its longest lifetime is 2^32 s.
    for (const name of ['a', 'b']) {
      const entry = await getFetched(slot, name)
      expect(entry?.value).toEqual(result('hello'))
      expect(Number(entry?.lastModified)).toBeLessThan(Date.now() - 2 ** 32 * 1_000)
    }
    edge.clockMs += 61_000
    expect(await getFetched(slot, 'a')).not.toBeNull()
    expect(await getFetched(slot, 'b')).toBeNull()
  })

  test('that began before a revalidation are not shown after it', async () => {
    const slot = openSlot()
    await inRequest(async () => {
      const cache = new slot.FetchCache({})
      await cache.get('a', FETCH)
      await revalidate(openSlot(), 'posts')
      await cache.set('a', result('old'), { fetchCache: true, tags: ['posts'] })
    })
    expect(await getFetched(slot, 'a')).toBeNull()
  })

  test('that one request makes anew after it revalidated their tag are kept', async () => {
    const slot = openSlot()
    await fetchAnew(slot, 'a', 'old', ['posts'])
    await inRequest(async () => {
      const cache = new slot.FetchCache({})
      expect(await cache.get('a', FETCH)).not.toBeNull()
      await cache.revalidateTag('posts')
      expect(await cache.get('a', FETCH)).toBeNull()
      await cache.set('a', result('new'), { fetchCache: true, tags: ['posts'] })
    })
    expect((await getFetched(slot, 'a'))?.value).toEqual(result('new'))
  })

  test('are all that is kept where an edge keeps the pages', async () => {
    const slot = openSlot()
    const cache = new slot.FetchCache({})
    await cache.set('/page', { kind: 'APP_PAGE', html: '' }, {})
    expect(await cache.get('/page', { kind: 'APP_PAGE' })).toBeNull()
    expect(edge.asked).toEqual([])
  })
})

test.each<[string, (asked: () => void) => void, number]>([
  ['fails', () => (edge.trouble = (_, outgoing) => void outgoing.writeHead(503).end()), 0],
  ['stalls', (asked) => (edge.trouble = asked), 500],
  ['breaks off', () => (edge.trouble = (incoming) => void incoming.socket.destroy()), 0],
  ['talks nonsense', () => (edge.trouble = (_, outgoing) => void outgoing.end('<html>')), 0],
  ['is gone', () => edge.close(), 0],
])('while the edge %s nothing is found, soon, and nothing is thrown', async (_, begin, waitMs) => {
  const slot = openSlot()
  await fetchAnew(slot, 'a', 'hello')
  await slot.DefaultCache.set('b', Promise.resolve(entryOf('hello')))
  const asked = Promise.withResolvers<void>()
  begin(asked.resolve)
  // The answer comes though no timer runs, but for the one that ends the wait for an edge that stalls.
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  const found = vi.fn<(value: unknown) => void>()
  const finding = getFetched(slot, 'a').then(found)
  if (waitMs > 0) await asked.promise
  vi.advanceTimersByTime(waitMs)
  vi.useRealTimers()
  await expect.poll(() => found.mock.calls).toEqual([[null]])
  await finding
  expect(await inRequest(() => slot.DefaultCache.get('b', []))).toBeUndefined()
  await inRequest(() => slot.DefaultCache.refreshTags())
  expect(await inRequest(() => slot.DefaultCache.getExpiration(['posts']))).toBe(0)
  expect(warned).toHaveBeenCalledOnce()
})

test('what the edge did not take is not found here either, and a revalidation that it did not take is an error', async () => {
  const slot = openSlot()
  edge.close()
  await expect(fetchAnew(slot, 'a', 'hello')).rejects.toThrow(/ENOENT|ECONNREFUSED/)
  await slot.DefaultCache.set('b', Promise.resolve(entryOf('hello')))
  await expect(revalidate(slot, 'posts')).rejects.toThrow(/ENOENT|ECONNREFUSED/)
  await expect(slot.DefaultCache.updateTags(['posts'])).rejects.toThrow(/ENOENT|ECONNREFUSED/)
  edge = await openFakeEdge(join(folder, 'cache.sock'))
  expect(await getFetched(slot, 'a')).toBeNull()
  expect(await inRequest(() => slot.DefaultCache.get('b', []))).toBeUndefined()
})

test('a revalidation that the edge refuses is an error with its reason', async () => {
  const slot = openSlot()
  edge.trouble = (_, outgoing) => void outgoing.writeHead(409).end('{"error":"Too many tags"}')
  await expect(revalidate(slot, 'posts')).rejects.toThrow('The cache of this deployment answered 409: Too many tags')
  await expect(fetchAnew(slot, 'a', 'hello')).rejects.toThrow('409')
})

test('a connection that the edge closed for being idle is no trouble', async () => {
  const slot = openSlot()
  await fetchAnew(slot, 'a', 'hello')
  let count = 0
  edge.trouble = (incoming) => {
    count += 1
    edge.trouble = undefined
    incoming.socket.destroy()
  }
  await revalidate(slot, 'posts')
  expect(count).toBe(1)
})

test('a revalidation reaches the edge once, though it is said to each handler', async () => {
  const slot = openSlot()
  const tags = Array.from({ length: 300 }, (_, n) => `tag${n}`)
  await inRequest(() =>
    Promise.all([
      new slot.FetchCache({}).revalidateTag(tags),
      slot.DefaultCache.updateTags(tags),
      slot.RemoteCache.updateTags(tags),
    ]),
  )
  expect(edge.asked.filter((each) => each === 'POST /tags')).toHaveLength(2)
})

describe('results of use cache', () => {
  test('are found in another slot, as often as they are asked for', async () => {
    const nowMs = stopClocks()
    const [one, other] = [openSlot(), openSlot()]
    const timestamp = performance.timeOrigin + performance.now() - 1_000
    const newEntry = entryOf('hello', { tags: ['posts'], timestamp })
    await inRequest(() => one.DefaultCache.set('a', Promise.resolve(newEntry)))
    for (let n = 0; n < 2; n++) {
      const entry = await inRequest(() => other.DefaultCache.get('a', []))
      expect(entry).toMatchObject({ tags: ['posts'], stale: 30, expire: 3_600, revalidate: 60 })
      expect(entry?.timestamp).toBeCloseTo(nowMs - 1_000, 1)
      expect(await textOf(entry)).toBe('hello')
    }
  })

  test('that are just being made are waited for', async () => {
    const slot = openSlot()
    const making = Promise.withResolvers<Entry>()
    const setting = slot.DefaultCache.set('a', making.promise)
    const getting = slot.DefaultCache.get('a', [])
    making.resolve(entryOf('hello'))
    expect(await textOf(await getting)).toBe('hello')
    await setting
  })

  test('are gone once a tag was revalidated, or made anew if it said so', async () => {
    const [one, other] = [openSlot(), openSlot()]
    await one.DefaultCache.set('a', Promise.resolve(entryOf('hello', { tags: ['posts'] })))
    await one.DefaultCache.set('b', Promise.resolve(entryOf('hello', { tags: ['later'] })))
    const startedAt = Date.now()
    await one.DefaultCache.updateTags(['posts'])
    await one.DefaultCache.updateTags(['later'], { expire: 60 })
    expect(await inRequest(() => other.DefaultCache.get('a', []))).toBeUndefined()
    const shown = await inRequest(() => other.DefaultCache.get('b', []))
    expect(shown?.revalidate).toBe(-1)
    expect(await textOf(shown)).toBe('hello')
    expect(await inRequest(() => other.DefaultCache.getExpiration(['later', 'never']))).toBe(0)
    const expiration = await inRequest(() => other.DefaultCache.getExpiration(['posts', 'later']))
    // It lies within this test; each of the clocks rounds to a whole millisecond.
    expect(expiration).toBeGreaterThanOrEqual(startedAt - 2)
    expect(expiration).toBeLessThanOrEqual(Date.now() + 2)
  })

  test.each([
    [
      'that broke off',
      () => entryOf('', { value: new ReadableStream({ start: (each) => each.error(new Error('broken')) }) }),
    ],
    ['that are too long', () => entryOf('x'.repeat(2_097_153))],
    ['that may not be used again', () => entryOf('hello', { expire: 0 })],
  ])('%s are not kept', async (_, make) => {
    const slot = openSlot()
    await slot.DefaultCache.set('a', Promise.resolve(make()))
    await slot.DefaultCache.set('b', Promise.reject(new Error('was not made')))
    expect(await slot.DefaultCache.get('a', [])).toBeUndefined()
    expect(edge.values.size).toBe(0)
  })
})

test('memory holds 32 MiB, and the rest is asked for', async () => {
  const slot = openSlot()
  for (let n = 0; n < 20; n++) await fetchAnew(slot, `n${n}`, 'x'.repeat(2_000_000))
  edge.asked = []
  await getFetched(slot, 'n19')
  expect(edge.asked).toEqual(['GET /changes'])
  await getFetched(slot, 'n0')
  expect(edge.asked).toHaveLength(3)
})

describe('pages of a server of its own', () => {
  const page = {
    kind: 'APP_PAGE',
    html: '<p>made</p>',
    rscData: Buffer.from([0xff, 0x00]),
    postponed: '12:{"a":1}',
    headers: { 'x-next-cache-tags': 'posts,_N_T_/a' },
    status: 200,
    segmentData: new Map([['/_tree', Buffer.from([0xfe])]]),
  }
  const cacheControl = { revalidate: 60, expire: 3_600 }
  const PAGE = { kind: 'APP_PAGE', isFallback: false }

  /** An application with pages of its build, and the handler of Next.js that reads them. */
  async function writeApplication(version = '16.4.6'): Promise<{ handler: string; serverDistDir: string }> {
    const next = join(folder, 'node_modules/next')
    const inCache = join(next, 'dist/server/lib/incremental-cache')
    await mkdir(inCache, { recursive: true })
    await writeFile(join(next, 'package.json'), JSON.stringify({ name: 'next', version }))
    await writeFile(
      join(inCache, 'file-system-cache.js'),
      `exports.default = class {
        constructor(options) { if (options.flushToDisk) throw new Error('the folder is read-only') }
        async get(name) { return name === '/built' ? { lastModified: 1, value: { html: 'built', headers: { 'x-next-cache-tags': 'posts' } } } : null }
      }`,
    )
    await writeFile(
      join(inCache, 'tags-manifest.external.js'),
      'exports.tagsManifest = globalThis.testTags = new Map()',
    )
    return { handler: join(folder, 'server.js'), serverDistDir: join(folder, '.next/server') }
  }
  const staleTags = () => (globalThis as unknown as { testTags: Map<string, { stale: number }> }).testTags

  test('are found in another slot, whatever they consist of', async () => {
    const { handler, serverDistDir } = await writeApplication()
    const [one, other] = [openSlot(5, handler), openSlot(5, handler)]
    await inRequest(async () => {
      const cache = new one.FetchCache({ serverDistDir, flushToDisk: true })
      expect(await cache.get('/a', PAGE)).toBeNull()
      await cache.set('/a', page, { cacheControl, isFallback: false })
      await cache.set('/none', null, { cacheControl })
    })
    const get = (name: string) => inRequest(() => new other.FetchCache({ serverDistDir }).get(name, PAGE))
    expect(await get('/a')).toEqual({ value: page, cacheControl, lastModified: expect.any(Number) })
    expect(await get('/none')).toEqual({ value: null, cacheControl, lastModified: expect.any(Number) })
    await revalidate(one, 'posts', {})
    const entry = await get('/a')
    // Next.js compares these itself.
    expect(Number(staleTags().get('posts')?.stale)).toBeGreaterThan(Number(entry?.lastModified))
    await revalidate(one, '_N_T_/a')
    expect(await get('/a')).toBeNull()
  })

  test('are those of the build until a tag of theirs is revalidated', async () => {
    const { handler, serverDistDir } = await writeApplication()
    const slot = openSlot(5_000, handler)
    const get = () => inRequest(() => new slot.FetchCache({ serverDistDir }).get('/built', PAGE))
    expect(await get()).toMatchObject({ value: { html: 'built' }, lastModified: 5_000 })
    await revalidate(slot, 'posts', {})
    expect(await get()).toMatchObject({ value: { html: 'built' } })
    expect(staleTags().get('posts')?.stale).toBeGreaterThan(5_000)
    await revalidate(slot, 'posts')
    expect(await get()).toBeNull()
  })

  test('are kept by nobody else, though other answers may be', async () => {
    const { prototype } = ServerResponse
    const { writeHead } = prototype
    keepPagesHere()
    const server = createServer((incoming, outgoing) => {
      if (incoming.url === '/page') outgoing.setHeader('x-nextjs-cache', 'HIT')
      outgoing.setHeader('Cache-Control', 's-maxage=60, stale-while-revalidate=1').end()
    }).listen(0)
    try {
      const { port } = server.address() as AddressInfo
      const controlOf = async (path: string) =>
        (await fetch(`http://localhost:${port}${path}`)).headers.get('cache-control')
      expect(await controlOf('/page')).toBe('public, max-age=0, must-revalidate')
      expect(await controlOf('/other')).toBe('s-maxage=60, stale-while-revalidate=1')
    } finally {
      server.close()
      prototype.writeHead = writeHead
    }
  })

  test('are left to Next.js where it is older than 16', async () => {
    const { handler } = await writeApplication('15.5.0')
    expect(openSlot(5, handler)).toEqual({})
  })
})
