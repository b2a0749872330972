import { startPlatform, type TestEdge, type TestPlatform } from '@platform/testing/platform'
import { and, eq, like } from 'drizzle-orm'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { visit } from '../../../../test/deploy.ts'
import { loggedRequests } from '../../../../test/logged-requests.ts'
import { newOwner, type Owner } from '../../../../test/scenario.ts'
import { deployStickySite, openEvents, openSocket } from '../../../../test/sticky-site.ts'
import { setQuota } from '../../tenancy/products/quotas.ts'
import { requestLogs } from '../../observe/request-logs/table.ts'
import { stickyPins } from '../sticky-sessions/table.ts'

let platform: TestPlatform
let second: TestEdge
let ana: Owner
let site: Awaited<ReturnType<typeof deployStickySite>>
beforeAll(async () => {
  platform = await startPlatform({ hasWorker: true, env: { DEFAULT_PLAN: 'pro' } })
  second = await platform.addEdge()
  ana = await newOwner(platform)
  site = await deployStickySite(platform, ana)
})
afterAll(() => platform.close())

const asGiven = { headers: { accept: 'application/json' } }

/** Keeps every slot's event loop busy until the Function has this many slots on the first edge. */
async function growTo(options: typeof site, slots: number): Promise<Set<string>> {
  const instances = new Set<string>()
  const askBusy = async () => instances.add((await visit(platform, options.host, '/busy')).text)
  await expect
    .poll(
      async () => {
        await Promise.all(Array.from({ length: slots * 2 }, askBusy))
        return instances.size
      },
      { interval: 10 },
    )
    .toBeGreaterThanOrEqual(slots)
  return instances
}

/** Sticky URLs whose pins are spread over at least two processes; one whose event loop was busy just now comes last. */
async function pinToSeveral(options: typeof site, name: string) {
  const paths: string[] = []
  const before: Awaited<ReturnType<typeof site.who>>[] = []
  const pinAnother = async (): Promise<number> => {
    const path = await options.mint({ key: `${name} ${paths.length}` })
    before.push(await options.who(path))
    paths.push(path)
    return new Set(before.map(({ instance }) => instance)).size
  }
  await expect.poll(pinAnother, { interval: 100 }).toBeGreaterThanOrEqual(2)
  return { paths, before }
}

describe('what a sticky URL is good for', () => {
  test('requests by it go to one process, which sees the URL without what makes it sticky', async () => {
    const path = await site.mint({ key: 'cart', endpoint: '/who?tab=items' })
    const first = await site.who(path)
    const again = await site.who(`${path}&more=1`)
    expect(again).toMatchObject({ instance: first.instance, url: '/who?tab=items&more=1', isRestarted: false })
    expect(first.isRestarted).toBe(false)
    expect(JSON.stringify(again)).not.toContain('__sticky')
  })

  test.each([
    ['another path', (path: string) => path.replace('/who', '/whom')],
    ['another signature', (path: string) => `${path.slice(0, -2)}AA`],
    ['no signature', (path: string) => path.replace(/__sticky=.*/, '__sticky=')],
    ['two signatures', (path: string) => `${path}&${path.split('?')[1]}`],
    ['a file', (path: string) => path.replace('/who', '/note.txt')],
  ])('%s is a 403 page', async (_, change) => {
    const path = await site.mint({ key: 'changed' })
    const answer = await visit(platform, site.host, change(path))
    expect(answer).toMatchObject({ status: 403, headers: { 'x-platform-error': 'sticky_url_invalid' } })
    expect(answer.headers['cache-control']).toBe('no-store')
  })

  test('another deployment refuses it', async () => {
    const other = await deployStickySite(platform, ana)
    expect((await visit(platform, other.host, await site.mint({ key: 'moved' }))).status).toBe(403)
  })

  test('one that has expired is refused', async () => {
    const path = await site.mint({ key: 'old', expiresInSeconds: 60 })
    expect((await visit(platform, site.host, path)).status).toBe(200)
    platform.clock.advance(61_000)
    expect((await visit(platform, site.host, path)).status).toBe(403)
  })

  test('of one method alone, if it was made so', async () => {
    const path = await site.mint({ key: 'get', method: 'GET' })
    for (const method of ['GET', 'HEAD', 'OPTIONS'])
      expect([method, (await visit(platform, site.host, path, { method })).status]).toEqual([method, 200])
    const refused = await visit(platform, site.host, path, { method: 'POST' })
    expect(refused).toMatchObject({ status: 405, headers: { 'x-platform-error': 'sticky_url_method' } })
    expect(refused.headers.allow).toBe('GET, HEAD, OPTIONS')
    const post = await site.mint({ key: 'post', method: 'POST' })
    expect((await visit(platform, site.host, post)).status).toBe(405)
    expect(await site.who(post, platform, { method: 'POST', body: 'abc' })).toMatchObject({ bytes: 3 })
    const any = await site.mint({ key: 'any' })
    for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'])
      expect((await site.who(any, platform, { method })).method).toBe(method)
  })

  test('nothing of it comes from a cache or goes there', async () => {
    const path = await site.mint({ key: 'uncached', endpoint: '/cached' })
    const first = await visit(platform, site.host, path)
    const again = await visit(platform, site.host, path)
    expect([first.headers['x-cache'], again.headers['x-cache']]).toEqual(['BYPASS', 'BYPASS'])
    expect(again.text).not.toBe(first.text)
    expect((await visit(platform, site.host, '/cached')).headers['x-cache']).toBe('MISS')
    expect((await visit(platform, site.host, path)).headers['x-cache']).toBe('BYPASS')
  })

  test('other origins do not learn of it', async () => {
    const answer = await visit(platform, site.host, await site.mint({ key: 'referrer' }))
    expect(answer.headers['referrer-policy']).toBe('same-origin')
    const own = await visit(platform, site.host, await site.mint({ key: 'referrer', endpoint: '/policy' }))
    expect(own.headers['referrer-policy']).toBe('no-referrer')
    expect((await visit(platform, site.host, '/who')).headers['referrer-policy']).toBeUndefined()
    const file = await visit(platform, site.host, await site.mint({ key: 'referrer', endpoint: '/note.txt' }))
    expect([file.text, file.headers['referrer-policy']]).toEqual(['a file', 'same-origin'])
  })

  test('the request log does not show it', async () => {
    const path = await site.mint({ key: 'logged', endpoint: '/who?from=log' })
    await visit(platform, site.host, path)
    const ofSite = eq(requestLogs.deploymentId, site.id)
    const rows = await loggedRequests(platform, and(ofSite, like(requestLogs.query, 'from=log%')), 1)
    expect(rows).toMatchObject([{ query: 'from=log&__sticky=[redacted]', status: 200 }])
    expect(JSON.stringify(rows)).not.toContain(path.split('__sticky=')[1])
  })
})

describe('the same process', () => {
  test('by HTTP, streams and WebSockets, on either edge', async () => {
    const path = await site.mint({ key: 'everywhere' })
    const { instance } = await site.who(path)
    const [events, socket] = [await site.mint({ key: 'everywhere', endpoint: '/events' }), path]
    for (const at of [platform, second]) {
      expect((await site.who(path, at)).instance).toBe(instance)
      const stream = await openEvents(at, site.host, events)
      expect(stream.instance).toBe(instance)
      stream.close()
      const opened = await openSocket(at, site.host, socket)
      expect(opened.instance).toBe(instance)
      expect(await opened.echo('hello')).toBe('hello')
      opened.close()
    }
  })

  test('of the edge that was asked first, whichever that is', async () => {
    const path = await site.mint({ key: 'second first' })
    const there = await site.who(path, second)
    const here = await site.who(path)
    expect(here).toMatchObject({ instance: there.instance, isRestarted: false })
    const ordinary = await site.who('/who')
    expect(ordinary.instance).not.toBe(here.instance)
    const rows = await platform.api.db.select().from(stickyPins)
    expect(rows.filter(({ instance }) => instance !== null).length).toBeGreaterThan(0)
  })

  test('bodies, statuses and headers are the same by way of another edge', async () => {
    const path = await site.mint({ key: 'relayed' })
    await site.who(path)
    const body = 'x'.repeat(3_000_000)
    const [here, there] = [
      await site.who(path, platform, { method: 'PUT', body, ...asGiven }),
      await site.who(path, second, { method: 'PUT', body, ...asGiven }),
    ]
    expect(there).toMatchObject({ instance: here.instance, bytes: body.length, method: 'PUT', url: here.url })
    const { 'x-request-id': _here, ...headersHere } = here.headers
    const { 'x-request-id': _there, ...headersThere } = there.headers
    expect(headersThere).toEqual(headersHere)
  })

  test('of two first requests at once there is one', async () => {
    await growTo(site, 2)
    for (let n = 0; n < 10; n++) {
      const path = await site.mint({ key: `at once ${n}` })
      const options = await Promise.all([platform, second, platform, second].map((at) => site.who(path, at)))
      expect(new Set(options.map(({ instance }) => instance)).size).toBe(1)
    }
  })

  test('while its Function grows from two to four, and others take the load', async () => {
    const grown = await deployStickySite(platform, ana)
    await setQuota(platform.api, ana.organizationId, 'function_slots', 4)
    await growTo(grown, 2)
    const { paths, before } = await pinToSeveral(grown, 'client')
    const instances = await growTo(grown, 4)
    expect(instances.size).toBe(4)
    const after = await Promise.all(paths.map((path) => grown.who(path)))
    expect(after.map(({ instance }) => instance)).toEqual(before.map(({ instance }) => instance))
    expect(after.some(({ isRestarted }) => isRestarted)).toBe(false)
    const pinned = await Promise.all(Array.from({ length: 40 }, (_, n) => grown.mint({ key: `later ${n}` })))
    const later = await Promise.all(pinned.map((path) => grown.who(path)))
    expect(new Set(later.map(({ instance }) => instance)).size).toBeLessThanOrEqual(4)
  })

  test('after a deploy: the URL is of the deployment that made it', async () => {
    const old = await deployStickySite(platform, ana)
    const path = await old.mint({ key: 'deploy' })
    const { instance } = await old.who(path)
    await deployStickySite(platform, ana)
    expect(await old.who(path)).toMatchObject({ instance, isRestarted: false })
    expect(await old.who(path, second)).toMatchObject({ instance, isRestarted: false })
  })

  test('that has ended is started anew under its number, and its next request says so', async () => {
    const killed = await deployStickySite(platform, ana)
    await growTo(killed, 2)
    const { paths, before } = await pinToSeveral(killed, 'killed')
    const exit = await killed.mint({ key: 'killed 0', endpoint: '/exit' })
    expect((await visit(platform, killed.host, exit)).status).toBe(502)
    const [victim] = before
    for (const [n, path] of paths.entries()) {
      const wasVictim = before[n]?.instance === victim?.instance
      const next = await killed.who(path, n % 2 === 0 ? platform : second)
      expect(next.isRestarted).toBe(wasVictim)
      expect(next.instance === before[n]?.instance).toBe(!wasVictim)
      expect((await killed.who(path)).isRestarted).toBe(false)
    }
    const after = await Promise.all(paths.map((path) => killed.who(path)))
    const groups = (each: typeof before) =>
      each.map(({ instance }) => each.findIndex((other) => other.instance === instance))
    expect(groups(after)).toEqual(groups(before))
  })
})

test('requests that wait for a new process of their slot are answered by it, and hold it no longer than that', async () => {
  const key = 'waiting'
  const path = await site.mint({ key })
  const exit = await site.mint({ key, endpoint: '/exit' })
  // If earlier requests still counted, it would be full.
  const askAll = (address: { edgeUrl: string }) =>
    Promise.all(Array.from({ length: 150 }, () => site.who(path, address)))
  await site.who(path)
  await visit(platform, site.host, exit)
  const all = [...(await askAll(platform)), ...(await askAll(second))]
  expect(new Set(all.map(({ instance }) => instance)).size).toBe(1)
})

describe('an edge that stops', () => {
  test('gives its pins to those that are left, at once', async () => {
    const third = await platform.addEdge()
    const path = await site.mint({ key: 'stopping' })
    const before = await site.who(path, third)
    expect((await site.who(path)).instance).toBe(before.instance)
    await third.stop()
    const after = await site.who(path)
    expect(after).toMatchObject({ isRestarted: true })
    expect(await site.who(path, second)).toMatchObject({ instance: after.instance, isRestarted: false })
  })
})
