import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { offerOwnFetch } from './own-fetch.ts'

const { fetch: original } = globalThis
const OWN = 'own.example:4002'
let folder: string
let edge: Server
let outside: Server
let outsideUrl: string

/** Names the server that answered. */
const serve = (name: string) => createServer((request, response) => void answer(name, request, response))

async function answer(name: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const url = new URL(request.url ?? '/', 'http://any')
  const status = Number(url.searchParams.get('status') ?? 200)
  const location = url.searchParams.get('to')
  if (location !== null) response.setHeader('location', location)
  response.statusCode = status
  const { method, headers } = request
  const { host, cookie, authorization, 'accept-encoding': encoding } = headers
  const seen = { name, method, path: url.pathname, visit: headers['x-platform-visit'], own: headers['x-own'] }
  response.end(JSON.stringify({ ...seen, host, cookie, authorization, encoding, body: await text(request) }))
}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'own-'))
  edge = serve('edge')
  outside = serve('outside')
  await new Promise<void>((done) => edge.listen(join(folder, 's'), done))
  await new Promise<void>((done) => outside.listen(0, '127.0.0.1', done))
  outsideUrl = `http://127.0.0.1:${(outside.address() as { port: number }).port}`
  offerOwnFetch(join(folder, 's'), [OWN, outsideUrl.slice('http://'.length)], 3000)
})
afterAll(async () => {
  globalThis.fetch = original
  edge.close()
  outside.close()
  await rm(folder, { recursive: true })
})

const ask = async (path: string, init?: RequestInit) => {
  const answer = await fetch(`https://${OWN}${path}`, init)
  return {
    status: answer.status,
    url: answer.url,
    redirected: answer.redirected,
    seen: (await answer.json()) as object,
  }
}

test('its own host is asked through the socket, with method, headers and body', async () => {
  const { seen, url } = await ask('/a', { method: 'POST', body: 'hello', headers: { 'x-own': 'yes' } })
  const request = { method: 'POST', path: '/a', visit: '1', own: 'yes', host: OWN, body: 'hello' }
  expect(seen).toEqual({ name: 'edge', ...request, encoding: 'identity' })
  expect(url).toBe(`https://${OWN}/a`)
})

test('plain localhost and the port of a server are its own host, and another port is not', async () => {
  for (const origin of ['http://localhost', 'http://localhost:3000', 'http://127.0.0.1:3000', 'http://0.0.0.0:3000'])
    expect(await (await fetch(`${origin}/a`)).json()).toMatchObject({ name: 'edge', path: '/a', host: OWN })
  const { port } = new URL(outsideUrl)
  expect(await (await fetch(`http://localhost:${port}/a`)).json()).toMatchObject({ name: 'outside' })
})

test('redirects are followed here and outside, and as the request wants', async () => {
  const inner = await ask('/a?status=302&to=/b', { method: 'POST', body: 'hello' })
  expect(inner).toMatchObject({
    url: `https://${OWN}/b`,
    redirected: true,
    seen: { method: 'GET', path: '/b', body: '' },
  })
  const kept = await ask('/a?status=307&to=/b', { method: 'POST', body: 'hello' })
  expect(kept.seen).toMatchObject({ method: 'POST', path: '/b', body: 'hello' })
  expect((await ask('/a?status=302&to=/b', { redirect: 'manual' })).status).toBe(302)
  await expect(ask('/a?status=302&to=/b', { redirect: 'error' })).rejects.toThrow('fetch failed')
  await expect(
    ask(`/a?${new URLSearchParams({ status: '302', to: '/a?status=302&to=/a?' }).toString()}`),
  ).resolves.toMatchObject({
    status: 200,
  })
})

test('a redirect tells another origin nothing of who was asked', async () => {
  const headers = { authorization: 'Bearer secret', cookie: 'a=secret', 'x-own': 'yes' }
  const inner = await ask('/a?status=307&to=/b', { headers })
  expect(inner.seen).toMatchObject({ authorization: 'Bearer secret', cookie: 'a=secret', own: 'yes' })
  for (const to of [`${outsideUrl}/b?status=421`, outsideUrl.replace('127.0.0.1', 'localhost')]) {
    const { seen } = await ask(`/a?${new URLSearchParams({ status: '307', to }).toString()}`, { headers })
    expect(seen).toMatchObject({ name: 'outside', own: 'yes' })
    expect(seen).not.toHaveProperty('authorization')
    expect(seen).not.toHaveProperty('cookie')
  }
})

test('what a request accepts is not compressed, since nobody would take that off', async () => {
  const { seen } = await ask('/a', { headers: { 'accept-encoding': 'gzip, br' } })
  expect(seen).toMatchObject({ encoding: 'identity' })
})

test('what the edge says is not its own goes outside', async () => {
  // The test's edge answers 421 for a host that exists on the network.
  const answer = await fetch(`${outsideUrl}/a?status=421`, { method: 'POST', body: 'hello' })
  expect(await answer.json()).toMatchObject({ name: 'outside', method: 'POST', path: '/a', body: 'hello' })
})
