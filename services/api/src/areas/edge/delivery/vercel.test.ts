import { findTestObstacle } from '@platform/sandbox/test-obstacle'
import {
  headerCases,
  redirectCases,
  rewriteCases,
  spelledPages,
  spellingCases,
  type VercelCase,
} from '@platform/build-output/vercel-cases'
import { unless } from '@platform/test-runner/task-meta'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Got, visit } from '../../../../test/deploy.ts'
import { buildSource, sourceFile as file } from '../../../../test/deployments.ts'
import { newOwner, type Owner } from '../../../../test/scenario.ts'
import type { ZipEntry } from '../../../../test/zip.ts'

const obstacle = findTestObstacle(['bwrap', 'setpriv', 'prlimit'])

let platform: TestPlatform
let ana: Owner
beforeAll(async () => {
  platform = await startPlatform({ hasWorker: true })
  ana = await newOwner(platform)
})
afterAll(() => platform.close())

async function deploy(config: object, archive: readonly ZipEntry[]) {
  const deployed = await buildSource(platform, ana, { archive: [file('vercel.json', config), ...archive] })
  if (deployed.status !== 'ACTIVE') throw new Error(deployed.log)
  return deployed
}

/** Pages whose content is their name. */
const pages = (paths: readonly string[]): ZipEntry[] =>
  paths.map((path) => file(path.includes('.') ? path : `${path}.html`, path))

/** Cases that a visit can make: a host is the deployment's own, and other origins are not asked. */
const visited = (cases: readonly VercelCase[]): VercelCase[] =>
  cases.filter(({ is, request }) => request?.host === undefined && !is.startsWith('external'))

const ask = (host: string, { url, request }: VercelCase): Promise<Got> => {
  const { method = 'GET', headers = {} } = request ?? {}
  return visit(platform, host, url, { method, headers })
}

/** Writes an answer as the cases do. body: of a 200. */
const short = ({ status, headers: { location }, text }: Got): string =>
  status === 200 ? `200 ${text}` : location === undefined ? `${status} -` : `${status} → ${location}`

/** A case's answer where a Function is a page of its name. */
const asPage = ({ is }: VercelCase): string => is.replace(/^ƒ (\w+) .*/, '200 $1')

const echo = file(
  'server.js',
  `require('node:http').createServer((req, res) => res.end(req.url)).listen(process.env.PORT)`,
)

describe('plain files with vercel.json', () => {
  let host: string
  beforeAll(async () => {
    const config = { ...redirectCases.config, ...headerCases.config, cleanUrls: true, trailingSlash: false }
    const files = [...new Set([...redirectCases.files, ...headerCases.files, ...spelledPages])]
    ;({ host } = await deploy(config, [...pages(files), file('_redirects', '/me /wrong 302\n/other /right 302')]))
  })

  test.each(visited(redirectCases.cases))('$url is $is', async (each) => {
    expect(short(await ask(host, each))).toBe(each.is)
  })

  test('_redirects comes behind vercel.json', async () => {
    expect(short(await visit(platform, host, '/other'))).toBe('302 → /right')
  })

  test.each(headerCases.cases)('the headers of $url are $headers', async ({ url, headers }) => {
    expect((await visit(platform, host, url)).headers).toMatchObject(headers)
  })

  const spelled = spellingCases.filter(({ cleanUrls, trailingSlash }) => cleanUrls && trailingSlash === false)
  test.each(spelled.flatMap(({ cases }) => cases))('with cleanUrls, $url is $is', async (each) => {
    expect(short(await ask(host, each))).toBe(each.is)
  })
})

describe('rewrites of plain files', () => {
  test.each([rewriteCases])(
    'lead to files behind those that are there',
    async ({ config, files, functions, cases }) => {
      const { host } = await deploy(config, pages([...files, ...functions]))
      const answers = await Promise.all(visited(cases).map(async (each) => [each.url, short(await ask(host, each))]))
      expect(answers).toEqual(visited(cases).map((each) => [each.url, asPage(each)]))
    },
  )
})

describe('a Node server with vercel.json', unless(obstacle), () => {
  const server = [echo, file('package.json', {})]

  test('a Node server gets the requests that redirects leave alone, with the headers of vercel.json', async () => {
    const { host } = await deploy({ ...redirectCases.config, ...headerCases.config }, server)
    for (const each of visited(redirectCases.cases)) {
      const expected = each.is.includes('→') ? each.is : `200 ${each.url}`
      expect([each.url, short(await ask(host, each))]).toEqual([each.url, expected])
    }
    for (const { url, headers } of headerCases.cases)
      expect((await visit(platform, host, url)).headers).toMatchObject(headers)
    expect((await visit(platform, host, '/a%2Fb//c/../z?q')).text).toBe('/a%2Fb//c/../z?q')
  })

  test('a Node server gets the paths that rewrites make', async () => {
    const { host } = await deploy(rewriteCases.config, server)
    for (const each of visited(rewriteCases.cases))
      expect([each.url, (await ask(host, each)).text]).toEqual([each.url, each.sees])
  })
})

test('vercel.json comes before the routes of Build Output, and its crons are the deployment’s', async () => {
  const { host, log } = await deploy(
    {
      redirects: [{ source: '/a', destination: '/v' }],
      rewrites: [{ source: '/b', destination: '/page.txt' }],
      crons: [{ path: '/page.txt', schedule: '0 5 * * *' }],
    },
    [
      file('.vercel/output/config.json', { version: 3, routes: [{ src: '/a', dest: '/page.txt' }] }),
      file('.vercel/output/static/page.txt', 'page'),
    ],
  )
  expect([short(await visit(platform, host, '/a')), short(await visit(platform, host, '/b'))]).toEqual([
    '308 → /v',
    '200 page',
  ])
  expect(log).toContain('INFO Found Build Output: 1 asset, 0 Functions, 4 routes, 1 cron')
  expect(log).toContain("INFO vercel.json: 2 routes in front of the site's own.")
})

describe('vercel.json that asks for what is not here', () => {
  test('a member of vercel.json that does nothing here is a warning, and the rest of it works', async () => {
    const { host, log } = await deploy(
      {
        functions: {},
        regions: ['fra1'],
        redirects: [
          { source: '/a', destination: '/b' },
          { source: '/b', destination: '/a' },
          { source: '/c', destination: '/d' },
        ],
        headers: [
          {
            source: '/(.*)',
            headers: [
              { key: 'bad name', value: 'x' },
              { key: 'x-a', value: 'b\r\nc: d' },
              { key: 'content-security-policy', value: 'none' },
            ],
          },
        ],
      },
      pages(['index', 'b']),
    )
    expect(log.match(/^WARN vercel\.json: .*/gm)).toEqual([
      expect.stringContaining('`functions` is ignored: '),
      expect.stringContaining('`regions` is ignored: '),
      expect.stringContaining('redirects[0] is left out'),
      expect.stringContaining('redirects[1] is left out'),
    ])
    const page = await visit(platform, host, '/b')
    expect([short(page), page.headers['x-a'], page.headers['c']]).toEqual(['200 b', 'b%0D%0Ac: d', undefined])
    expect(short(await visit(platform, host, '/c'))).toBe('308 → /d')
    // The platform's own page is no less safe for it.
    expect((await visit(platform, host, '/none')).headers).toMatchObject({
      'x-a': 'b%0D%0Ac: d',
      'content-security-policy': expect.stringContaining("default-src 'none'") as string,
    })
  })

  test('a rule that takes too long fails the deployment before its build, and is named', async () => {
    const { status, failureReason, log } = await buildSource(platform, ana, {
      archive: [
        file('vercel.json', { rewrites: [{ source: '/:a((?:x+)+y)', destination: '/' }] }),
        file('package.json', { scripts: { build: 'exit 1' } }),
      ],
    })
    expect([status, failureReason]).toEqual([
      'FAILED',
      'vercel.json: rewrites[0], "/:a((?:x+)+y)", takes too long to match some paths (exponential): simplify it.',
    ])
    expect(log).not.toContain('Package manager')
  })
})
