import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { getJson } from './get-json.ts'

async function serve(listener: RequestListener): Promise<URL> {
  const server = createServer(listener).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/document?with=query`)
}
const { signal } = new AbortController()

test('a document is requested with its query and the given headers, and returned', async () => {
  const url = await serve((request, response) =>
    response.end(JSON.stringify({ url: request.url, authorization: request.headers.authorization })),
  )
  const headers = { authorization: 'Bearer x' }
  expect(await getJson(url, { headers, signal })).toEqual({ url: '/document?with=query', authorization: 'Bearer x' })
})

test('a redirect is an error and not followed, so no token reaches another address', async () => {
  const asked: (string | undefined)[] = []
  const url = await serve((request, response) => {
    asked.push(request.url)
    response.writeHead(302, { location: '/elsewhere' }).end()
  })
  await expect(getJson(url, { signal })).rejects.toThrow(`${url.origin}/document answered 302`)
  expect(asked).toEqual(['/document?with=query'])
})

test('an answer that is no JSON is an error', async () => {
  const url = await serve((_, response) => response.end('<html>'))
  await expect(getJson(url, { signal })).rejects.toThrow('is not valid JSON')
})

test.each(['its headers', 'its end'])(
  'who gives up while waiting for %s gets the reason of the signal',
  async (what) => {
    const giveUp = new AbortController()
    const reason = new Error('given up')
    const url = await serve((_, response) => {
      if (what === 'its end') response.write('{')
      giveUp.abort(reason)
    })
    await expect(getJson(url, { signal: giveUp.signal })).rejects.toBe(reason)
  },
)
