import { once } from 'node:events'
import { createServer, type IncomingMessage, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { gzipSync } from 'node:zlib'
import { afterEach, describe, expect, test } from 'vitest'
import { checkRedirect } from './check-url.ts'
import {
  type GuardedFetch,
  type GuardedFetchOptions,
  type GuardedRequest,
  openGuardedFetch,
  RefusedAddress,
  UnreachableOrigin,
} from './guarded-fetch.ts'

const closers: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of closers.splice(0)) await close()
})

/** Starts a server on loopback that records its requests. */
async function serve(listener: RequestListener): Promise<{ port: number; requests: IncomingMessage[] }> {
  const requests: IncomingMessage[] = []
  const server = createServer((request, response) => {
    requests.push(request)
    listener(request, response)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  closers.push(async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  })
  return { port: (server.address() as AddressInfo).port, requests }
}

/** Resolves names to loopback, which is allowed here: these tests are not about addresses. */
function open(options: GuardedFetchOptions = {}): GuardedFetch {
  const guarded = openGuardedFetch({
    allow: ['127.0.0.1'],
    lookup: () => Promise.resolve([{ address: '127.0.0.1', family: 4 }]),
    ...options,
  })
  closers.push(() => guarded.close())
  return guarded
}

const get = (url: string, more: Partial<GuardedRequest> = {}): GuardedRequest => ({
  url,
  method: 'GET',
  headers: {},
  redirectsMax: 3,
  ...more,
})
const failureOf = async (promise: Promise<unknown>): Promise<Error> => {
  const failure = await promise.catch((error: unknown) => error)
  if (failure instanceof Error) return failure
  throw new Error('It did not fail')
}

test.each([
  ['no address', 'x'],
  ['no address', 'http://'],
  ['another protocol', 'ftp://a.example/'],
  ['another protocol', 'file:///etc/passwd'],
  ['another protocol', 'data:text/plain,x'],
  ['a user', 'http://user@a.example/'],
  ['a password', 'http://:x@a.example/'],
  ['loopback', 'http://127.0.0.1/'],
  ['loopback in octal', 'http://0177.0.0.1/'],
  ['loopback in hex', 'http://0x7f.0.0.1/'],
  ['loopback in decimal', 'http://2130706433/'],
  ['loopback, short', 'http://127.1/'],
  ['loopback in wide digits', 'http://\uff11\uff12\uff17.0.0.1/'],
  ['loopback with a trailing dot', 'http://127.0.0.1./'],
  ['this host', 'http://0/'],
  ['loopback of IPv6', 'http://[::1]/'],
  ['mapped loopback', 'http://[::ffff:127.0.0.1]/'],
  ['mapped loopback in hex', 'http://[::ffff:7f00:1]/'],
  ['NAT64 of loopback', 'http://[64:ff9b::7f00:1]/'],
  ['metadata', 'http://169.254.169.254/latest/meta-data/'],
  ['localhost', 'http://localhost/'],
  ['localhost with a dot', 'http://localhost./'],
  ['localhost in capitals', 'http://LOCALHOST:8080/'],
  ['below localhost', 'http://a.localhost/'],
  ['mDNS', 'http://printer.local/'],
  ['internal', 'http://metadata.google.internal/'],
  ['internal with dots', 'http://metadata.google.internal../'],
])('%s is refused before anything is resolved: %s', async (_, url) => {
  const guarded = open({
    allow: [],
    lookup: () => {
      throw new Error('It was resolved')
    },
  })
  expect(await failureOf(guarded.fetch(get(url)))).toBeInstanceOf(RefusedAddress)
})

describe('a name', () => {
  const resolvingTo = (...addresses: string[]) =>
    open({
      allow: [],
      lookup: () => Promise.resolve(addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }))),
    })
  test.each([
    [['127.0.0.1']],
    [['10.0.0.1']],
    [['::1']],
    [['::ffff:10.0.0.1']],
    [['8.8.8.8', '10.0.0.1']],
    [['10.0.0.1', '8.8.8.8']],
    [[]],
  ])('that resolves to %j is refused, and the message does not tell to what', async (addresses) => {
    const failure = await failureOf(resolvingTo(...addresses).fetch(get('http://a.example/secret?x')))
    expect(failure).toBeInstanceOf(RefusedAddress)
    expect(failure.message).toMatch(/^a\.example (?:is not on the public Internet|has no address)$/)
  })
  test('that does not resolve is an origin that cannot be reached', async () => {
    const guarded = open({ lookup: () => Promise.reject(new Error('ENOTFOUND')) })
    expect(await failureOf(guarded.fetch(get('http://a.example/')))).toBeInstanceOf(UnreachableOrigin)
  })
  test('is resolved once for a connection, and the connection goes there', async () => {
    const { port, requests } = await serve((_, response) => response.end('ok'))
    const urls: string[] = []
    const guarded = open({
      allow: ['127.0.0.1'],
      lookup: (name) => {
        urls.push(name)
        return Promise.resolve([{ address: urls.length === 1 ? '127.0.0.1' : '10.0.0.1', family: 4 }])
      },
    })
    expect(await text((await guarded.fetch(get(`http://a.example:${port}/`))).body)).toBe('ok')
    expect(urls).toEqual(['a.example'])
    expect(requests[0]?.headers.host).toBe(`a.example:${port}`)
  })
})

describe('an answer', () => {
  test('comes as it was sent', async () => {
    const { port } = await serve((_, response) => {
      response.writeHead(418, { 'Content-Encoding': 'gzip', 'Set-Cookie': ['a=1', 'b=2'], 'X-A': '1' })
      response.end(gzipSync('tea'))
    })
    const { status, headers, body, url } = await open().fetch(get(`http://a.example:${port}/x?y#z`))
    expect({ status, url, headers }).toMatchObject({
      status: 418,
      url: `http://a.example:${port}/x?y`,
      headers: { 'content-encoding': 'gzip', 'set-cookie': ['a=1', 'b=2'], 'x-a': '1' },
    })
    const chunks: Buffer[] = []
    for await (const chunk of body) chunks.push(chunk)
    expect(Buffer.concat(chunks)).toEqual(gzipSync('tea'))
  })
  test('that never comes is an origin that cannot be reached', async () => {
    const { port } = await serve((request) => request.socket.destroy())
    const failure = await failureOf(open().fetch(get(`http://a.example:${port}/`)))
    expect(failure).toBeInstanceOf(UnreachableOrigin)
    expect(failure.message).toBe(`a.example:${port} did not answer`)
  })
  test('is given up with the reason of the signal', async () => {
    const reason = new Error('The visitor left')
    const controller = new AbortController()
    const { port } = await serve(() => controller.abort(reason))
    expect(await failureOf(open().fetch(get(`http://a.example:${port}/`, { signal: controller.signal })))).toBe(reason)
  })
  test('fails when its body breaks off', async () => {
    const { port } = await serve((request, response) => {
      response.writeHead(200, { 'content-length': '10' }).write('half')
      setImmediate(() => request.socket.destroy())
    })
    const { body } = await open().fetch(get(`http://a.example:${port}/`))
    expect(await failureOf(text(body))).toBeInstanceOf(Error)
  })
})

describe('an origin that falls silent', () => {
  /** One deadline is short, so that no other one ends the request on a busy machine. */
  const patient = { connectMs: 60_000, headersMs: 60_000, bodyIdleMs: 60_000 }
  test('before its headers cannot be reached', async () => {
    const { port } = await serve(() => {})
    const deadlines = { ...patient, headersMs: 200 }
    expect(await failureOf(open({ deadlines }).fetch(get(`http://a.example:${port}/`)))).toBeInstanceOf(
      UnreachableOrigin,
    )
  })
  test('within its body breaks the body off', async () => {
    const { port } = await serve((_, response) => response.writeHead(200).write('half'))
    const { body } = await open({ deadlines: { ...patient, bodyIdleMs: 200 } }).fetch(get(`http://a.example:${port}/`))
    expect(await failureOf(text(body))).toMatchObject({ code: 'UND_ERR_BODY_TIMEOUT' })
  })
  test('while its name is resolved cannot be reached', async () => {
    const guarded = open({ deadlines: { ...patient, connectMs: 200 }, lookup: () => new Promise(() => {}) })
    expect(await failureOf(guarded.fetch(get('http://a.example/')))).toBeInstanceOf(UnreachableOrigin)
  })
})

test.each([
  ['https://a.example/x', '/y', 'https://a.example/y'],
  ['http://a.example/x', 'https://b.example/', 'https://b.example/'],
  ['https://a.example/x', '//b.example/y#z', 'https://b.example/y'],
  ['https://a.example/x', 'http://a.example/', undefined],
  ['https://a.example/x', 'http://b.example/', undefined],
])('a redirect of %s to %s leads to %s', (from, location, expected) => {
  const follow = (): string => checkRedirect(location, new URL(from), () => false).href
  if (expected === undefined) expect(follow).toThrow(RefusedAddress)
  else expect(follow()).toBe(expected)
})

test('a request is sent as it is, without what concerns one connection', async () => {
  const received = Promise.withResolvers<string>()
  const { port, requests } = await serve((request, response) => {
    text(request).then(received.resolve, received.reject)
    response.end()
  })
  const headers = {
    'content-type': 'text/x',
    'x-a': ['1', '2'],
    host: 'forged.example',
    connection: 'close',
    'proxy-authorization': 'x',
    expect: '100-continue',
  }
  const request = get(`http://a.example:${port}/`, { method: 'POST', headers, body: Readable.from(['one', 'two']) })
  await (await open().fetch(request)).body.resume().toArray()
  expect(await received.promise).toBe('onetwo')
  expect(requests[0]?.headers).toMatchObject({ host: `a.example:${port}`, 'content-type': 'text/x', 'x-a': '1, 2' })
  expect(requests[0]?.headers).not.toHaveProperty('proxy-authorization')
  expect(requests[0]?.headers).not.toHaveProperty('expect')
})

describe('redirects', () => {
  /** `/302/to` redirects to `to`, as often as needed. */
  async function redirecting() {
    return serve((request, response) => {
      const [, status, to] = /^\/(\d{3})(\/.*|\?.*)$/.exec(request.url ?? '') ?? []
      if (status === undefined || to === undefined) response.end(request.url)
      else
        response
          .writeHead(Number(status), { location: to.startsWith('?') ? decodeURIComponent(to.slice(1)) : to })
          .end('moved')
    })
  }
  test('are followed, and the last address is told', async () => {
    const { port } = await redirecting()
    const { status, url, body } = await open().fetch(get(`http://a.example:${port}/302/301/end`))
    expect({ status, url, text: await text(body) }).toEqual({
      status: 200,
      url: `http://a.example:${port}/end`,
      text: '/end',
    })
  })
  test('are handed back where none is to be followed', async () => {
    const { port } = await redirecting()
    const { status, headers } = await open().fetch(get(`http://a.example:${port}/302/end`, { redirectsMax: 0 }))
    expect({ status, location: headers['location'] }).toEqual({ status: 302, location: '/end' })
  })
  test('are too many after as many as are allowed', async () => {
    const { port, requests } = await redirecting()
    const ask = (redirectsMax: number) =>
      open().fetch(get(`http://a.example:${port}/302/302/302/end`, { redirectsMax }))
    expect((await ask(3)).status).toBe(200)
    requests.length = 0
    expect(await failureOf(ask(2))).toBeInstanceOf(UnreachableOrigin)
    expect(requests).toHaveLength(3)
  })
  test.each([
    'http://10.0.0.1/',
    'http://localhost/',
    'ftp://a.example/',
    'http://user:x@a.example/',
    'http://[::ffff:a00:1]/',
    '//169.254.169.254/',
  ])('to %s are refused', async (to) => {
    const { port } = await redirecting()
    const failure = await failureOf(open().fetch(get(`http://a.example:${port}/302?${encodeURIComponent(to)}`)))
    expect(failure).toBeInstanceOf(RefusedAddress)
  })
  test('take credentials along on the same origin, and to no other', async () => {
    const { port, requests } = await redirecting()
    const headers = { authorization: 'Bearer x', cookie: 'a=1', 'x-a': '1' }
    await open().fetch(get(`http://a.example:${port}/302/end`, { headers }))
    await open().fetch(
      get(`http://a.example:${port}/302?${encodeURIComponent(`http://b.example:${port}/end`)}`, { headers }),
    )
    const seen = requests.map(({ headers: { host, authorization, cookie, 'x-a': own } }) => [
      host,
      authorization,
      cookie,
      own,
    ])
    expect(seen).toEqual([
      [`a.example:${port}`, 'Bearer x', 'a=1', '1'],
      [`a.example:${port}`, 'Bearer x', 'a=1', '1'],
      [`a.example:${port}`, 'Bearer x', 'a=1', '1'],
      [`b.example:${port}`, undefined, undefined, '1'],
    ])
  })
  test.each([
    [301, 'POST', 'GET'],
    [302, 'POST', 'GET'],
    [303, 'POST', 'GET'],
    [303, 'PUT', 'GET'],
    [303, 'HEAD', 'HEAD'],
    [307, 'POST', 'POST'],
    [308, 'DELETE', 'DELETE'],
    [302, 'DELETE', 'DELETE'],
  ])('with %i turn %s into %s', async (status, method, expected) => {
    const { port, requests } = await redirecting()
    await open().fetch(get(`http://a.example:${port}/${status}/end`, { method, headers: { 'content-type': 'text/x' } }))
    expect(requests[1]?.method).toBe(expected)
    expect(requests[1]?.headers['content-type']).toBe(expected === method ? 'text/x' : undefined)
  })
  test.each([
    [307, 'POST'],
    [302, 'PUT'],
  ])('with %i of a %s that had a body are handed back', async (status, method) => {
    const { port } = await redirecting()
    const request = get(`http://a.example:${port}/${status}/end`, { method, body: Readable.from(['x']) })
    expect((await open().fetch(request)).status).toBe(status)
  })
})
