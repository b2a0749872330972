import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { eq } from 'drizzle-orm'
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import { deploy, visit } from '../../../../test/deploy.ts'
import { logOf, newDeployment, untilEnded } from '../../../../test/deployments.ts'
import { buildOutput, handler } from '../../../../test/functions.ts'
import { askImage, imagePath, picture, seen, storedImages } from '../../../../test/images.ts'
import { loggedRequests } from '../../../../test/logged-requests.ts'
import { newOwner, type Owner } from '../../../../test/scenario.ts'
import { requestLogs } from '../../observe/request-logs/table.ts'

/** The AVIF below takes seconds on any machine. */
const DEADLINE_MS = 2_000

let platform: TestPlatform
let ana: Owner
beforeAll(async () => {
  platform = await startPlatform({ hasWorker: true, imageTransformer: { deadlineMs: DEADLINE_MS } })
  ana = await newOwner(platform)
})
afterAll(() => platform.close())

test('an AVIF that takes too long is 504 at its deadline, and is not tried again at once; others are made', async () => {
  const site = await deploy(platform, ana, {
    files: { 'large.jpg': { content: await picture(6_000, 6_000), contentType: 'image/jpeg' } },
  })
  const slow = imagePath('/large.jpg', 'format=avif&quality=100')
  const reading = vi.spyOn(platform.api.blobs, 'read')
  onTestFinished(() => reading.mockRestore())
  for (const isFirst of [true, false]) {
    reading.mockClear()
    const deadline = Date.now() + DEADLINE_MS
    const { status, headers } = await askImage(platform, site, slow)
    expect([status, headers['x-platform-error'], headers['cache-control']]).toEqual([504, 'image_timeout', 'no-store'])
    if (isFirst) expect(Date.now()).toBeGreaterThanOrEqual(deadline)
    // Another try would begin with the source.
    expect(reading.mock.calls.length > 0).toBe(isFirst)
  }
  // Browsers are not affected: they get a WebP of that size.
  const got = await askImage(platform, site, imagePath('/large.jpg', 'width=16'), { accept: 'image/avif' })
  expect(await seen(got)).toEqual({ format: 'avif', width: 16, height: 16 })
})

const png = (await picture(60, 40, 'png')).toString('base64')

test('a Function may be the source, behind a middleware', async () => {
  const { id } = await newDeployment(platform, ana, {
    archive: buildOutput(
      {
        photo: handler(`
          if (req.url.startsWith('/crash')) process.exit(1)
          const { cookie = 'none', authorization = 'none', 'x-passed': passed = 'none' } = req.headers
          if (req.url.startsWith('/who')) console.log('asked', cookie, authorization, passed)
          res.setHeader('content-type', 'image/png')
          res.end(Buffer.from('${png}', 'base64'))`),
        _middleware: handler(`
          if (req.url.startsWith('/closed')) return res.writeHead(403).end()
          res.setHeader('x-middleware-next', '1')
          res.setHeader('x-middleware-override-headers', 'x-passed')
          res.setHeader('x-middleware-request-x-passed', 'yes')
          res.end()`),
      },
      {
        routes: [
          { src: '/.*', middlewarePath: '_middleware', continue: true },
          { src: '/.*', dest: '/photo' },
        ],
      },
    ),
  })
  const deployment = await untilEnded(platform, id)
  expect([deployment.status, await logOf(platform, id)]).toEqual(['ACTIVE', expect.any(String)])
  const site = { host: `${deployment.label}.${platform.api.appsUrl.host}` }
  const secrets = { cookie: 'session=1', authorization: 'Bearer x' }
  const got = await askImage(platform, site, imagePath('/who?n=1', 'width=16'), secrets)
  expect([got.status, got.status === 200 && (await seen(got))]).toEqual([200, { format: 'png', width: 16, height: 11 }])
  await expect
    .poll(async () => {
      const logs = await platform.call(ana.token, `GET /deployments/${id}/runtime-logs`)
      return (logs.body as { items: { message: string }[] }).items.map(({ message }) => message)
    })
    .toContain('asked none none yes')
  expect((await storedImages(platform, id)).map(({ source }) => source)).toEqual(['/who?n=1'])
  for (const [path, code] of [
    ['/closed', 'image_source_failed'],
    ['/crash', 'image_source_failed'],
  ] as const) {
    const { status, headers } = await askImage(platform, site, imagePath(path))
    expect([path, status, headers['x-platform-error']]).toEqual([path, 502, code])
  }
  // The Function itself still runs, and requests made for images are not in the request log.
  expect((await visit(platform, site.host, '/direct')).status).toBe(200)
  const rows = await loggedRequests(platform, eq(requestLogs.deploymentId, id), 4)
  expect(rows.map(({ path }) => path).toSorted()).toEqual(
    [imagePath('/who?n=1'), imagePath('/closed'), imagePath('/crash'), '/direct'].toSorted(),
  )
})

test('an image that found no room is made at the next request', async () => {
  const crowded = await startPlatform({ imageTransformer: { atOnce: 1, waitingMax: 0, deadlineMs: 20_000 } })
  try {
    const site = await deploy(crowded, await newOwner(crowded), {
      files: { 'large.jpg': { content: await picture(1_600, 1_600), contentType: 'image/jpeg' } },
    })
    const paths = ['avif', 'webp'].map((format) => imagePath('/large.jpg', `format=${format}`))
    const answers = await Promise.all(paths.map((path) => askImage(crowded, site, path)))
    expect(answers.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([200, 429])
    for (const path of paths) expect((await askImage(crowded, site, path)).status).toBe(200)
  } finally {
    await crowded.close()
  }
})
