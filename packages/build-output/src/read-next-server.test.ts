import { expect, test } from 'vitest'
import { readOutput } from './read-output.ts'
import { compileOutput } from './router.ts'
import { treeOf } from './tree-of.ts'

const SERVER = 'process.env.__NEXT_PRIVATE_STANDALONE_CONFIG = "{}"'
const images = {
  path: '/_next/image',
  loader: 'default',
  deviceSizes: [640, 1080],
  imageSizes: [16],
  localPatterns: [{ pathname: '**', search: '' }],
  remotePatterns: [{ protocol: 'https', hostname: '**.example.com', pathname: '/a/**' }],
  qualities: [75],
}
const standalone = (config: object = {}): Record<string, string> => ({
  'server.js': SERVER,
  'package.json': '{"scripts":{"start":"next start"}}',
  '.next/required-server-files.json': JSON.stringify({ version: 1, config }),
  '.next/static/chunks/a.js': '',
  '.next/static/media/b.png': '',
  'public/c.txt': '',
})

test('Next.js’ standalone server is started by its module, whatever the start script of its project is', async () => {
  const { manifest, functions, assets } = await readOutput(treeOf(standalone()), '')
  expect(functions).toMatchObject([{ kind: 'server', handler: 'server.js' }])
  expect(functions[0]).not.toHaveProperty('command')
  expect(functions[0]?.files.size).toBe(6)
  expect(manifest).toMatchObject({ kind: 'server', staticFolder: '_next/static/' })
  expect(assets).toEqual([
    {
      path: '_next/static/chunks/a.js',
      source: '.next/static/chunks/a.js',
      contentType: expect.stringContaining('javascript'),
    },
    { path: '_next/static/media/b.png', source: '.next/static/media/b.png', contentType: 'image/png' },
  ])
})

test('a server beside a build of Next.js that is not its own stays what it is', async () => {
  const files = {
    ...standalone(),
    'server.js': 'custom',
    'main.js': '',
    'package.json': '{"scripts":{"start":"node main"}}',
  }
  const { manifest, functions, assets } = await readOutput(treeOf(files), '')
  expect(functions).toMatchObject([{ handler: 'main.js' }])
  expect([manifest.staticFolder, manifest.images, assets]).toEqual([undefined, undefined, []])
})

test('files under hashed names are no matter of the server, and everything else is', async () => {
  const { manifest, assets } = await readOutput(treeOf(standalone({ basePath: '/base' })), '')
  const names = new Set(assets.map(({ path }) => path))
  const route = (path: string, method = 'GET') =>
    compileOutput(manifest).route({ method, path, query: '', host: 'a', headers: {}, protocol: 'http' }, (name) =>
      names.has(name),
    )
  expect(route('/base/_next/static/chunks/a.js')).toMatchObject({ kind: 'asset', status: 200 })
  expect(route('/base/_next/static/chunks/gone.js')).toMatchObject({ kind: 'not-found', isHashed: true })
  expect(route('/base/_next/static/chunks/a.js', 'POST')).toMatchObject({ kind: 'status', status: 405 })
  for (const path of ['/', '/c.txt', '/_next/static/chunks/a.js', '/base/_next/image', '/base/_next/static'])
    expect(route(path).kind, path).toBe('function')
})

test('images are made by the edge, by the rules of the project', async () => {
  const { manifest } = await readOutput(treeOf(standalone({ images })), '')
  expect(manifest.images).toMatchObject({
    sizes: [640, 1080, 16],
    localPatterns: [{ pathname: '^.*$' }],
    remotePatterns: [{ protocol: 'https', hostname: String.raw`^.*\.example\.com$`, pathname: String.raw`^\/a\/.*$` }],
    qualities: [75],
  })
})

test.each([
  ['of another loader', { loader: 'custom' }],
  ['at another path', { path: '/base/_next/image' }],
  ['that are left as they are', { unoptimized: true }],
  ['of patterns that Next.js alone knows', { remotePatterns: [{ hostname: '{a,b}.example.com' }] }],
  ['of patterns that take long', { localPatterns: [{ pathname: '/**a**b**c**d**e' }] }],
  ['of another shape', { deviceSizes: 'all' }],
])('images %s are left to the server', async (_, more) => {
  const { manifest, functions } = await readOutput(treeOf(standalone({ images: { ...images, ...more } })), '')
  expect(manifest.images).toBeUndefined()
  expect(functions).toMatchObject([{ handler: 'server.js' }])
})
