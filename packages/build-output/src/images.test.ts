import { expect, test } from 'vitest'
import { compileImageSources } from './image-sources.ts'
import type { ImageRules } from './manifest.ts'
import { readOutput, UnusableOutput } from './read-output.ts'
import { treeOf } from './tree-of.ts'

const read = (images: object) =>
  readOutput(treeOf({ '.vercel/output/config.json': JSON.stringify({ version: 3, images }) }), '')
const rulesOf = async (images: object) => (await read({ sizes: [640], ...images })).manifest.images as ImageRules

test('images are kept as config.json has them, absent members absent', async () => {
  expect(await rulesOf({})).toEqual({ sizes: [640], domains: [], remotePatterns: [] })
  const all = {
    sizes: [16, 3_840],
    domains: ['cdn.example.com'],
    qualities: [50, 75],
    minimumCacheTTL: 60,
    formats: ['image/webp'],
    dangerouslyAllowSVG: true,
    contentSecurityPolicy: "script-src 'none'",
    contentDispositionType: 'attachment',
    localPatterns: [],
  }
  expect(await rulesOf(all)).toEqual({ ...all, remotePatterns: [] })
  expect((await readOutput(treeOf({ '.vercel/output/config.json': '{"version":3}' }), '')).manifest).not.toHaveProperty(
    'images',
  )
})

test.each<[string, object, RegExp]>([
  ['no sizes', {}, /images\.sizes/],
  ['a size of 0', { sizes: [0] }, /images\.sizes\.0/],
  ['a quality of 101', { sizes: [1], qualities: [101] }, /images\.qualities\.0/],
  ['another format', { sizes: [1], formats: ['image/jxl'] }, /images\.formats\.0/],
  ['a header of two lines', { sizes: [1], contentSecurityPolicy: 'a\nb' }, /contentSecurityPolicy: a header is plain/],
  ['a disposition that is none', { sizes: [1], contentDispositionType: 'evil' }, /contentDispositionType/],
  [
    'a pattern that does not compile',
    { sizes: [1], remotePatterns: [{ hostname: '^(' }] },
    /remotePatterns\[0\].*no pattern/,
  ],
  ['a slow pattern', { sizes: [1], localPatterns: [{ pathname: '^(a+)+$' }] }, /localPatterns\[0\].*takes too long/],
])('%s fails the deployment and names the member', async (_, images, sentence) => {
  const failure = await read(images).catch((error: unknown) => error)
  expect(failure).toBeInstanceOf(UnusableOutput)
  expect((failure as Error).message).toMatch(sentence)
})

// What `vercel build` makes of `**` in a path, using picomatch.
const ANY_PATH = String.raw`^(?:(?:(?!(?:^|\/)\.{1,2}(?:\/|$)).)*?)$`
test.each<[string, object, string[], string[]]>([
  ['nothing', {}, [], ['https://a.test/x', 'http://localhost/x']],
  [
    'a domain',
    { domains: ['A.test'] },
    ['https://a.test/x', 'http://a.test:81/'],
    ['https://b.a.test/', 'https://a.test.b/'],
  ],
  [
    'a regular expression of vercel build',
    {
      remotePatterns: [
        { protocol: 'https', hostname: String.raw`^(?:^(?:img\.a\.test)$)$`, port: '', pathname: ANY_PATH },
      ],
    },
    ['https://img.a.test/', 'https://img.a.test/a/b.png?x=1'],
    ['http://img.a.test/', 'https://img.a.test:8443/', 'https://imgXa.test/', 'https://img.a.test.b/'],
  ],
  [
    'an expression without ends',
    { remotePatterns: [{ hostname: String.raw`a\.test` }] },
    ['https://a.test/x'],
    ['https://a.test.attacker.net/', 'https://xa.test/'],
  ],
  [
    'what people write: a plain host and a folder',
    { remotePatterns: [{ hostname: 'a.test', pathname: '/in/**' }] },
    ['https://a.test/in/a/b'],
    ['https://aXtest/in/a', 'https://a.test/out/a', 'https://a.test/x/in/a'],
  ],
  [
    'any subdomain',
    { remotePatterns: [{ hostname: '**.a.test' }, { hostname: '*.b.test' }] },
    ['https://x.y.a.test/', 'https://x.b.test/'],
    ['https://x.y.b.test/', 'https://b.test/', 'https://xa.test/'],
  ],
  [
    'a query',
    { remotePatterns: [{ hostname: 'a.test', search: '?v=1' }] },
    ['https://a.test/?v=1'],
    ['https://a.test/', 'https://a.test/?v=2'],
  ],
])('%s allows what it says and nothing else', async (_, images, allowed, refused) => {
  const { allowsRemote } = compileImageSources(await rulesOf(images))
  expect(allowed.filter((url) => !allowsRemote(new URL(url)))).toEqual([])
  expect(refused.filter((url) => allowsRemote(new URL(url)))).toEqual([])
})

test('local patterns narrow what paths may be sources; an empty list allows none', async () => {
  const none = compileImageSources(undefined)
  expect([none.allowsLocal('/a.png', '?x'), none.allowsRemote(new URL('https://a.test/'))]).toEqual([true, false])
  expect(compileImageSources(await rulesOf({ localPatterns: [] })).allowsLocal('/a.png', '')).toBe(false)
  const { allowsLocal } = compileImageSources(await rulesOf({ localPatterns: [{ pathname: '/img/*', search: '' }] }))
  expect([
    allowsLocal('/img/a.png', ''),
    allowsLocal('/img/a.png', '?v=1'),
    allowsLocal('/img/a/b.png', ''),
    allowsLocal('/a.png', ''),
  ]).toEqual([true, false, false, false])
})
