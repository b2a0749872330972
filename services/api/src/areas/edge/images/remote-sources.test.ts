import { openGuardedFetch, RefusedAddress } from '@platform/guarded-fetch/guarded-fetch'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { deploy, type Deployed, type Got } from '../../../../test/deploy.ts'
import { askImage, imagePath, picture, seen, startOrigin } from '../../../../test/images.ts'
import { newOwner, type Owner } from '../../../../test/scenario.ts'

let platform: TestPlatform
let origin: Awaited<ReturnType<typeof startOrigin>>
let elsewhere: Awaited<ReturnType<typeof startOrigin>>
let site: Deployed
let owner: Owner
/** Allows every host, so that any refusal here comes from the guarded fetch. */
let trusting: Deployed
const addressOf: Record<string, string> = {}
/** Requests that the guarded fetch itself refused. */
const guarded: string[] = []

beforeAll(async () => {
  ;[origin, elsewhere] = await Promise.all([startOrigin(), startOrigin()])
  const guardedFetch = openGuardedFetch({
    allow: ['127.0.0.1/32'],
    lookup: (name) => {
      const address = addressOf[name]
      return address === undefined ? Promise.reject(new Error('ENOTFOUND')) : Promise.resolve([{ address, family: 4 }])
    },
  })
  platform = await startPlatform({
    guardedFetch: {
      ...guardedFetch,
      fetch: (request) =>
        guardedFetch.fetch(request).catch((error: unknown) => {
          if (error instanceof RefusedAddress) guarded.push(request.url)
          throw error
        }),
    },
  })
  const ana = (owner = await newOwner(platform))
  const output = (images: object) => ({
    kind: 'build-output' as const,
    routes: [
      { src: '^/to-loopback$', status: 302, headers: { location: `${origin.url}/allowed/a.png` } },
      { src: '^/to-metadata$', status: 302, headers: { location: 'http://169.254.169.254/latest/meta-data/' } },
      { src: '^/rewritten$', dest: 'http://10.0.0.1/' },
      { src: '^/own/(.*)$', dest: `${origin.url}/allowed/$1` },
    ],
    images: { sizes: [16], domains: [], remotePatterns: [], ...images },
  })
  Object.assign(addressOf, { 'photos.example': '127.0.0.1', 'private.example': '10.0.0.1' })
  site = await deploy(platform, ana, {
    output: output({
      remotePatterns: [
        {
          protocol: 'http',
          hostname: String.raw`^127\.0\.0\.1$`,
          port: String(origin.port),
          pathname: '^/allowed/.*$',
        },
      ],
      domains: ['photos.example'],
    }),
  })
  trusting = await deploy(platform, ana, {
    output: output({ remotePatterns: [{ hostname: '^.*$' }] }),
  })
})
afterAll(async () => {
  await platform.close()
  origin.close()
  elsewhere.close()
})

const ask = (url: string, at = site) => askImage(platform, at, imagePath(url, 'width=16'))
const errorOf = ({ status, headers }: Got) => [status, headers['x-platform-error'], headers['cache-control']]
const failed = [502, 'image_source_failed', 'no-store']
const refused = [400, 'image_request_invalid', 'no-store']

test('an image of an allowed origin is asked for without anything of the visitor or the platform', async () => {
  origin.show('/allowed/a.png?x=1', await picture(100, 50, 'png'))
  const got = await askImage(platform, site, imagePath(`${origin.url}/allowed/a.png?x=1#part`, 'width=16'), {
    cookie: 'session=1',
    authorization: 'Bearer x',
    'x-forwarded-for': '198.51.100.7',
  })
  expect([got.status, await seen(got)]).toEqual([200, { format: 'png', width: 16, height: 8 }])
  const { headers } = origin.received[0] ?? {}
  expect(headers).toMatchObject({ 'cdn-loop': 'platform-edge', 'accept-encoding': 'identity' })
  for (const name of ['cookie', 'authorization', 'x-forwarded-for', 'x-forwarded-host'])
    expect(headers).not.toHaveProperty(name)
  // Allowing a domain allows all its paths and ports.
  origin.show('/any.png', await picture(20, 20, 'png'))
  expect((await ask(`http://photos.example:${origin.port}/any.png`)).status).toBe(200)
})

test('what is not allowed is refused before it is asked', async () => {
  const before = origin.received.length
  const urls = [
    `${origin.url}/other/a.png`,
    `${origin.url}/allowed/../other/a.png`,
    `https://127.0.0.1:${origin.port}/allowed/a.png`,
    `${elsewhere.url}/allowed/a.png`,
    `http://127.0.0.1.photos.example:${origin.port}/allowed/a.png`,
    'http://sub.photos.example/a.png',
  ]
  for (const url of urls) expect([url, ...errorOf(await ask(url))]).toEqual([url, ...refused])
  expect([origin.received.length, elsewhere.received.length]).toEqual([before, 0])
})

describe('a redirect', () => {
  const redirect = (path: string, location: string) =>
    origin.answer(path, (_, outgoing) => outgoing.writeHead(302, { location }).end())

  test('is followed three times', async () => {
    origin.show('/allowed/end.png', await picture(20, 20, 'png'))
    for (let n = 0; n < 4; n++) redirect(`/allowed/hop-${n}`, n === 0 ? 'end.png' : `hop-${n - 1}`)
    expect((await ask(`${origin.url}/allowed/hop-2`)).status).toBe(200)
    expect(errorOf(await ask(`${origin.url}/allowed/hop-3`))).toEqual(failed)
  })

  test.each([
    ['a path that is not allowed', () => '/other/a.png'],
    ['another port', () => `${elsewhere.url}/allowed/a.png`],
    ['a private address', () => 'http://10.0.0.1/allowed/a.png'],
    ['metadata', () => 'http://169.254.169.254/allowed/a.png'],
    ['another protocol', () => 'file:///etc/passwd'],
    ['itself', () => '/allowed/to-itself'],
    ['nothing', () => 'http://['],
  ])('to %s is not followed', async (name, location) => {
    const path = name === 'itself' ? '/allowed/to-itself' : `/allowed/to-${name.replaceAll(' ', '-')}`
    redirect(path, location())
    expect(errorOf(await ask(`${origin.url}${path}`))).toEqual(failed)
    expect(elsewhere.received).toEqual([])
  })

  test('of the deployment’s own may lead to an allowed origin, and to no other', async () => {
    origin.show('/allowed/a.png', await picture(20, 20, 'png'))
    expect((await ask('/to-loopback')).status).toBe(200)
    for (const at of [site, trusting]) expect(errorOf(await ask('/to-metadata', at))).toEqual(failed)
    expect(errorOf(await ask('/rewritten'))).toEqual(failed)
  })
})

test.each([
  'http://0177.0.0.2/x.png',
  'http://0x7f.0.0.2/x.png',
  'http://2130706434/x.png',
  'http://127.2/x.png',
  'http://[::1]/x.png',
  'http://[::ffff:127.0.0.2]/x.png',
  'http://[::ffff:7f00:2]/x.png',
  'http://[64:ff9b::7f00:1]/x.png',
  'http://[fd00::1]/x.png',
  'http://[fe80::1]/x.png',
  'http://10.0.0.1/x.png',
  'http://172.16.0.1/x.png',
  'http://192.168.0.1/x.png',
  'http://100.64.0.1/x.png',
  'http://169.254.169.254/latest/meta-data/',
  'http://0/x.png',
  'http://255.255.255.255/x.png',
  'http://224.0.0.1/x.png',
  'http://localhost/x.png',
  'http://LOCALHOST./x.png',
  'http://a.localhost/x.png',
  'http://printer.local/x.png',
  'http://metadata.google.internal/x.png',
  'http://private.example/x.png',
  'http://user@photos.example/x.png',
])('%s is not asked, even where every host is allowed', async (url) => {
  const got = await ask(url, trusting)
  expect(errorOf(got)).toEqual(failed)
  expect(guarded).toContain(new URL(url).href)
  // The message reveals nothing about the network.
  expect(got.text).not.toMatch(/127\.|10\.0|resolve|ENOTFOUND|ECONNREFUSED/)
})

test.each(['http://unknown.example/x.png', 'http://photos.example:1/x.png'])(
  '%s cannot be reached, and why is not told',
  async (url) => {
    const got = await ask(url, trusting)
    expect(errorOf(got)).toEqual(failed)
    expect(got.text).not.toMatch(/127\.|10\.0|resolve|ENOTFOUND|ECONNREFUSED/)
  },
)

test('an answer that breaks off, is too long or is no image is no image', async () => {
  origin.answer('/allowed/half', (_, outgoing) => {
    outgoing.writeHead(200, { 'content-length': '100' }).write('half', () => outgoing.destroy())
  })
  expect(errorOf(await ask(`${origin.url}/allowed/half`))).toEqual(failed)
  origin.answer('/allowed/long', (_, outgoing) => {
    outgoing.writeHead(200, { 'content-length': '20971521' }).write('x')
  })
  expect(errorOf(await ask(`${origin.url}/allowed/long`))).toEqual([413, 'image_too_large', 'no-store'])
  origin.answer('/allowed/page', (_, outgoing) =>
    outgoing.writeHead(200, { 'content-type': 'image/png' }).end('<html>'),
  )
  expect(errorOf(await ask(`${origin.url}/allowed/page`))).toEqual([415, 'image_unreadable', 'no-store'])
})

test('an answer without end is left at 20 MB, and one that never comes is given up', async () => {
  const left = Promise.withResolvers<void>()
  let sent = 0
  origin.answer('/allowed/endless', (_, outgoing) => {
    const chunk = Buffer.alloc(1_048_576)
    const write = (): void => void outgoing.write(chunk, (error) => (error ? undefined : ((sent += 1), write())))
    outgoing.writeHead(200).on('close', () => left.resolve())
    write()
  })
  expect(errorOf(await ask(`${origin.url}/allowed/endless`))).toEqual([413, 'image_too_large', 'no-store'])
  await left.promise
  expect(sent).toBeLessThan(60)
  origin.hold('/allowed/never', Buffer.alloc(0))
  const never = await Promise.all([ask(`${origin.url}/allowed/never`), ask('/own/never')])
  expect(never.map(errorOf)).toEqual(never.map(() => [504, 'image_timeout', 'no-store']))
})

test('localPatterns narrow what may be a source, also of a redirect', async () => {
  const content = await picture(20, 20, 'png')
  const narrow = await deploy(platform, owner, {
    files: { 'img/a.png': { content, contentType: 'image/png' }, 'own/a.png': { content, contentType: 'image/png' } },
    output: {
      kind: 'build-output',
      routes: [{ src: '^/img/out$', status: 302, headers: { location: '/own/a.png' } }, { handle: 'filesystem' }],
      images: { sizes: [16], domains: [], remotePatterns: [], localPatterns: [{ pathname: '^/img/.*$' }] },
    },
  })
  expect((await ask('/img/a.png', narrow)).status).toBe(200)
  expect(errorOf(await ask('/own/a.png', narrow))).toEqual(refused)
  expect(errorOf(await ask('/img/out', narrow))).toEqual(failed)
})

test('no redirect leads from https to http', async () => {
  const secure = await startPlatform({
    guardedFetch: openGuardedFetch({ allow: ['127.0.0.1/32'] }),
    env: { APPS_URL: 'https://apps.example.net' },
  })
  try {
    origin.show('/allowed/a.png', await picture(20, 20, 'png'))
    const at = await deploy(secure, await newOwner(secure), {
      output: {
        kind: 'build-output',
        routes: [{ src: '^/down$', status: 302, headers: { location: `${origin.url}/allowed/a.png` } }],
        images: { sizes: [16], domains: ['127.0.0.1'], remotePatterns: [] },
      },
    })
    expect((await askImage(secure, at, imagePath(`${origin.url}/allowed/a.png`))).status).toBe(200)
    expect(errorOf(await askImage(secure, at, imagePath('/down')))).toEqual(failed)
  } finally {
    await secure.close()
  }
})
