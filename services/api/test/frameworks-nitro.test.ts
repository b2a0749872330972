import { expect, test } from 'vitest'
import type { Got } from './deploy.ts'
import { buildFixture, describeFramework, areInTurn, piecesOf, untilStale } from './frameworks.ts'
import { unique } from './scenario.ts'

const variables = { SERVER_SECRET: `secret-${unique()}` }

/** What a route of the fixture saw of who asked. */
interface Seen {
  time: number
  cookie: string | null
  agent: string | null
  query: string
}

const seenBy = ({ status, text }: Got): Seen => {
  if (status !== 200) throw new Error(`${status}: ${text}`)
  return JSON.parse(text) as Seen
}

describeFramework('Nitro', { build: buildFixture, variables }, (deploy) => {
  const site = deploy('nitro')
  const { get } = site

  test('routes answer by method, with variables of the deployment', async () => {
    expect(JSON.parse((await get('/api/hello')).text)).toEqual({ hello: 'nitro', secret: variables.SERVER_SECRET })
    expect((await get('/echo', {}, 'POST', 'body')).text).toBe('POST body')
    const json = { 'content-type': 'application/json' }
    expect(JSON.parse((await get('/only', json, 'POST', '{"a":1}')).text)).toEqual({ posted: { a: 1 } })
    expect((await get('/only')).status).toBe(404)
    expect(await get('/api/hello', {}, 'HEAD')).toMatchObject({ status: 200, text: '' })
    expect((await get('/live', { cookie: 'a=1' })).headers['x-from-middleware']).toBe('passed')
    expect(seenBy(await get('/live?q=1', { cookie: 'a=1' }))).toMatchObject({ cookie: 'a=1', query: '?q=1' })
  })

  test('its rules redirect, set headers, and prerender', async () => {
    expect(await get('/old')).toMatchObject({ status: 307, headers: { location: '/prerendered' } })
    expect(await get('/ruled/ana')).toMatchObject({ text: 'ruled ana', headers: { 'x-rule': 'yes' } })
    const prerendered = await get('/prerendered')
    expect(prerendered).toMatchObject({ status: 200, text: '<h1>Prerendered</h1>' })
    expect(prerendered.headers['content-type']).toMatch(/^text\/html/)
  })

  test('files are served', async () => {
    expect((await get('/hi.txt')).text).toBe('hi\n')
    expect((await get('/hi.txt', {}, 'POST')).status).toBe(405)
  })

  test('what is not there, and what throws, is answered by the site', async () => {
    for (const [path, status] of [
      ['/gone', 404],
      ['/boom', 500],
    ] as const) {
      const answer = await get(path)
      expect([answer.status, JSON.parse(answer.text)], path).toEqual([status, { by: 'the fixture', status }])
    }
  })

  test('an answer streams', async () => {
    const pieces = await piecesOf(site, '/stream')
    expect(areInTurn(pieces, ['1', '2', '3'])).toBe(true)
  })

  test('what is kept is the same, then old once more, and then new', async () => {
    const { time } = seenBy(await get('/kept'))
    expect(seenBy(await get('/kept')).time).toBe(time)
    expect(seenBy(await untilStale(site, '/kept')).time).toBe(time)
    await expect.poll(async () => seenBy(await get('/kept')).time).toBeGreaterThan(time)
  })

  test('what is kept forever stays', async () => {
    const { time } = seenBy(await get('/kept/forever'))
    site.platform.clock.advance(86_400_000)
    expect(seenBy(await get('/kept/forever')).time).toBe(time)
  })

  test('what is kept by a parameter knows it and no other', async () => {
    const one = seenBy(await get('/kept/query?q=1&r=2'))
    expect(seenBy(await get('/kept/query?q=1&r=3')).time).toBe(one.time)
    expect(seenBy(await get('/kept/query?q=2')).time).not.toBe(one.time)
  })

  test('what is kept has nothing of a visitor in it', async () => {
    for (const path of ['/kept', '/kept/forever', '/kept/query?q=9']) {
      const answer = await get(path, { cookie: 'who=sly', 'user-agent': 'sly', authorization: 'sly' })
      expect(answer.status, path).toBe(200)
      expect(answer.text, path).not.toContain('sly')
      expect(answer.headers['set-cookie'], path).toBeUndefined()
    }
  })

  test('a cache of its own is kept too', async () => {
    const { time } = seenBy(await get('/swr'))
    expect(seenBy(await get('/swr')).time).toBe(time)
  })
})
