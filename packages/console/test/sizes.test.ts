import { readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, inject, test } from 'vitest'

interface Chunk {
  file: string
  isEntry?: boolean
  imports?: string[]
  dynamicImports?: string[]
  css?: string[]
}

const folder = inject('consoleFolder')
const manifest = JSON.parse(await readFile(join(folder, '.vite/manifest.json'), 'utf8')) as Record<string, Chunk>

/** What a browser fetches for a chunk at once, by names in the manifest. */
function closureOf(name: string, known = new Set<string>()): Set<string> {
  if (known.has(name)) return known
  known.add(name)
  for (const each of manifest[name]?.imports ?? []) closureOf(each, known)
  return known
}

const gzippedBytes = async (files: Iterable<string>): Promise<number> => {
  let sum = 0
  for (const file of files) sum += (await stat(join(folder, `${file}.gz`))).size
  return sum
}

const filesOf = (names: Iterable<string>): string[] => [...names].map((name) => manifest[name]?.file ?? '')

const entry = Object.keys(manifest).find((name) => manifest[name]?.isEntry) ?? ''
const initial = closureOf(entry)
const routes = [...initial].flatMap((name) => manifest[name]?.dynamicImports ?? [])
/** Routes that chart, or that send files. */
const heavy = new Set(['src/screens/application/application.tsx'])

test('what a browser needs before the first page is at most 75 kB of script and 15 kB of style', async () => {
  expect(await gzippedBytes(filesOf(initial))).toBeLessThanOrEqual(75_000)
  const css = [...initial].flatMap((name) => manifest[name]?.css ?? [])
  expect(css).toHaveLength(1)
  expect(await gzippedBytes(css)).toBeLessThanOrEqual(15_000)
})

test.each(routes)('%s takes at most 25 kB more, with a chart or uploads 50', async (route) => {
  const more = [...closureOf(route)].filter((name) => !initial.has(name))
  expect(await gzippedBytes(filesOf(more))).toBeLessThanOrEqual(heavy.has(route) ? 50_000 : 25_000)
})

test.each([
  { list: 'requests', kB: 25 },
  // One kilobyte more: its lines have colours and links.
  { list: 'lines', kB: 26 },
])(
  'the logs take at most $kB kB more with their list of $list, which is fetched once it is shown',
  async ({ list, kB }) => {
    const names = ['logs', list].flatMap((part) => [...closureOf(`src/screens/logs/${part}.tsx`)])
    const more = [...new Set(names)].filter((name) => !initial.has(name))
    expect(more.length).toBeGreaterThan(2)
    expect(await gzippedBytes(filesOf(more))).toBeLessThanOrEqual(kB * 1_000)
  },
)

test('the font that a page in English needs has at most 50 kB', async () => {
  const fonts = Object.values(manifest)
    .map(({ file }) => file)
    .filter((file) => file.endsWith('.woff2'))
  const latin = fonts.filter((file) => !file.includes('latin-ext'))
  expect(latin).toHaveLength(1)
  expect((await stat(join(folder, latin[0] ?? ''))).size).toBeLessThanOrEqual(50_000)
})

test('the page holds no script, no style and no address of data', async () => {
  const page = await readFile(join(folder, 'index.html'), 'utf8')
  expect(page).not.toMatch(/<style|<script[^>]*>[^<]|style="|data:|\son\w+=/)
  const css = await readFile(join(folder, [...initial].flatMap((name) => manifest[name]?.css ?? [])[0] ?? ''), 'utf8')
  expect(css).not.toContain('data:')
})
