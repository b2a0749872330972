import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { visit } from '../../../../test/deploy.ts'
import { logOf, newDeployment, untilEnded } from '../../../../test/deployments.ts'
import { newOwner, type Owner } from '../../../../test/scenario.ts'
import type { ZipEntry } from '../../../../test/zip.ts'

let platform: TestPlatform
let ana: Owner
beforeAll(async () => {
  platform = await startPlatform({ hasWorker: true })
  ana = await newOwner(platform)
})
afterAll(() => platform.close())

async function deploy(archive: ZipEntry[]): Promise<string> {
  const { id } = await newDeployment(platform, ana, { archive })
  const deployment = await untilEnded(platform, id)
  if (deployment.status !== 'ACTIVE') throw new Error(await logOf(platform, id))
  return `${deployment.label}.${platform.api.appsUrl.host}`
}

const paths = [
  '/fetch/https://x.example/a.png',
  '/fetch/https://x.example/a.png?w=1&u=a//b/../c',
  '/a%2Fb//c/%2e%2E%2Fz',
  '//evil.example/%61',
  '/a\\b;c=%zz',
]

describe('a Node server', () => {
  let host: string
  beforeAll(async () => {
    host = await deploy([
      { name: 'package.json', content: '{"scripts":{"start":"node server.js"}}' },
      {
        name: 'server.js',
        content: `require('node:http').createServer((q, r) => r.end(q.url)).listen(process.env.PORT)`,
      },
    ])
  })
  test.each([...paths, '/a%2Fb//c/../z', '/../../etc/./passwd'])(
    'a Node server gets the path %s as it was sent',
    async (path) => {
      expect((await visit(platform, host, path)).text).toBe(path)
    },
  )
})

describe('a worker', () => {
  let host: string
  beforeAll(async () => {
    host = await deploy([
      {
        name: '_worker.js',
        content: `export default { fetch: ({ url }) => new Response('worker ' + url) }`,
      },
      { name: '_routes.json', content: '{"version":1,"include":["/*"],"exclude":["/open/*"]}' },
      { name: 'secret/index.html', content: 'file' },
      { name: 'open/index.html', content: 'file' },
    ])
  })
  test.each(paths.filter((path) => !path.includes('\\')))('a worker gets the path %s as it was sent', async (path) => {
    expect((await visit(platform, host, path)).text).toBe(`worker http://${host}${path}`)
  })
  test.each(['/secret/', '/secret//', '/%73ecret/', '/open/../secret/', '/open/%2e%2e/secret/', '/open\\..\\secret/'])(
    'a worker answers %s, whose file it guards',
    async (path) => expect((await visit(platform, host, path)).text).toMatch(/^worker /),
  )
  test.each(['/open/', '//open/', '/%6fpen/', '/secret/../open/'])(
    'a worker leaves %s to the files, as its rules say of that path',
    async (path) => expect((await visit(platform, host, path)).text).toBe('file'),
  )
})
