import { startPlatform, type TestEdge, type TestPlatform } from '@platform/testing/platform'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { visit } from '../../../../test/deploy.ts'
import { logOf, newDeployment, untilEnded } from '../../../../test/deployments.ts'
import { buildOutput, handler } from '../../../../test/functions.ts'
import { newOwner } from '../../../../test/scenario.ts'

let platform: TestPlatform
let second: TestEdge
let host: string

/** Uses the cache handlers as Next.js does. The path of a request selects the action. */
const code = handler(`
  const { FetchCache, DefaultCache } = globalThis[Symbol.for('@next/cache-handlers')]
  const cache = new FetchCache({})
  const [, , verb, name, value] = req.url.split('/')
  const answer = {
    async get() {
      const found = await cache.get(name, { kind: 'FETCH', tags: ['posts'] })
      return found ? found.value.data + (Date.now() - found.lastModified > 1e12 ? ' (stale)' : '') : 'nothing'
    },
    async set() {
      await cache.set(name, { kind: 'FETCH', data: value, revalidate: 60 }, { fetchCache: true, tags: ['posts'] })
      return 'set'
    },
    async keep() {
      const stream = new Blob([value]).stream()
      const timestamp = performance.timeOrigin + performance.now()
      await DefaultCache.set(name, Promise.resolve({ value: stream, tags: ['posts'], stale: 1, timestamp, expire: 60, revalidate: 60 }))
      return 'kept'
    },
    async find() {
      await DefaultCache.refreshTags()
      const found = await DefaultCache.get(name, [])
      return found ? new Response(found.value).text() : 'nothing'
    },
    async revalidate() {
      await cache.revalidateTag(name, value === undefined ? undefined : { expire: Number(value) })
      return 'revalidated'
    },
  }[verb]
  try {
    res.end(await answer())
  } catch (error) {
    res.end('threw ' + error.message)
  }
`)

beforeAll(async () => {
  platform = await startPlatform({ hasWorker: true })
  second = await platform.addEdge()
  const ana = await newOwner(platform)
  const routes = ['one', 'other'].map((name) => ({ src: `/${name}/.*`, dest: `/${name}` }))
  const archive = buildOutput({ one: code, other: code }, { routes })
  const { id, label, status } = await untilEnded(platform, (await newDeployment(platform, ana, { archive })).id)
  if (status !== 'ACTIVE') throw new Error(await logOf(platform, id))
  host = `${label}.${platform.api.appsUrl.host}`
})
afterAll(() => platform.close())

const ask = async (path: string) => (await visit(platform, host, path)).text
const askThere = async (path: string) => (await visit(second, host, path)).text
const soon = { interval: 5 }

test('what one Function stores is found by another, on each edge', async () => {
  expect(await ask('/other/get/a')).toBe('nothing')
  expect(await askThere('/one/get/a')).toBe('nothing')
  expect(await ask('/one/set/a/hello')).toBe('set')
  expect(await ask('/other/get/a')).toBe('hello')
  await expect.poll(() => askThere('/one/get/a'), soon).toBe('hello')
  expect(await ask('/other/set/a/again')).toBe('set')
  expect(await ask('/one/get/a')).toBe('again')
  await expect.poll(() => askThere('/one/get/a'), soon).toBe('again')
  expect(await ask('/one/keep/b/cached')).toBe('kept')
  expect(await ask('/other/find/b')).toBe('cached')
})

test('a tag that one Function revalidates is seen at once by another, and within a second on another edge', async () => {
  for (let n = 0; n < 5; n++) {
    await ask(`/one/set/a/hello${n}`)
    await ask(`/one/keep/b/cached${n}`)
    expect(await ask('/other/get/a')).toBe(`hello${n}`)
    expect(await ask('/other/find/b')).toBe(`cached${n}`)
    await expect.poll(() => askThere('/one/get/a'), soon).toBe(`hello${n}`)
    await ask('/one/revalidate/posts')
    expect(await ask('/other/get/a')).toBe('nothing')
    expect(await ask('/other/find/b')).toBe('nothing')
    await expect.poll(() => askThere('/one/get/a'), soon).toBe('nothing')
  }
})

test('what was revalidated with a time to live is shown as stale', async () => {
  await ask('/one/set/c/hello')
  await ask('/other/revalidate/posts/60')
  expect(await ask('/one/get/c')).toBe('hello (stale)')
})

test('a revalidation that cannot be stored is an error of the Function', async () => {
  expect(await ask(`/one/revalidate/${'x'.repeat(1_025)}`)).toMatch(
    /^threw The cache of this deployment answered 400: /,
  )
})
