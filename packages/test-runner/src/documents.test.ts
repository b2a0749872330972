import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { expect, test } from 'vitest'
import { repository } from './workspace.ts'

const lines = (text: string) => text.split('\n').filter((line) => line !== '')
/** What the next commit can hold. */
const files = lines(
  execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard'], {
    cwd: repository,
    encoding: 'utf8',
    maxBuffer: 64_000_000,
  }),
).filter((file) => existsSync(join(repository, file)))
/** Without the templates of packages/cli: what is written from them is in another folder, where their links lead from. */
const pages = files.filter((file) => file.endsWith('.md') && !file.startsWith('packages/cli/test/documents/'))

/** Projects of users: their folders have names that mean something else in a document, such as `next/image`. */
const FIXTURES = /^services\/api\/test\/(frameworks|starters)\//
const folders = new Set(files.filter((file) => !FIXTURES.test(file)).flatMap((file) => file.split('/').slice(0, -1)))
/** Every file and folder, from the root, and from each folder that it is in. */
const known = new Set(
  files.flatMap((file) => {
    const parts = file.split('/')
    return parts.flatMap((_, end) => parts.slice(0, end + 1).map((__, start) => parts.slice(start, end + 1).join('/')))
  }),
)

const SOURCE = /\.(ts|tsx|sql|sh|conf)$/
/** What looks like a path that begins with the name of a folder of ours. */
const OTHERS = [
  // Media types.
  /^application\/[a-z-]+$/,
  // Models that answer on this machine.
  /^local\/echo(-[a-z]+)?$/,
  // What the reader of docs/kubernetes.md makes.
  /^overlays\/mine$/,
]

/**
 * Whether a word in backticks is a path of the repository: source files and what ends in a slash always, other words with a slash if
 * they begin with the name of a folder. Other names of one word, such as `vercel.json`, are mostly of files of users.
 */
function isPath(word: string): boolean {
  if (!/^[\w.-][\w./-]*$/.test(word) || word.startsWith('..') || OTHERS.some((other) => other.test(word))) return false
  return SOURCE.test(word) || word.endsWith('/') || (word.includes('/') && folders.has(word.split('/')[0] ?? ''))
}

const textOf = (page: string) =>
  readFileSync(join(repository, page), 'utf8').replace(/^ *(```+|~~~+)[^]*?^ *\1 *$/gm, '')

/** Paths in backticks, without the slash at their end. */
const namedPaths = (text: string) =>
  [...text.matchAll(/`((?:[^`\n]|\n(?!\n))+)`/g)]
    .map(([, word = '']) => word)
    .filter((word) => isPath(word))
    .map((word) => word.replace(/\/$/, ''))

/** Targets of links to files, without their anchors. */
const linkedFiles = (text: string) =>
  [...text.replaceAll(/`[^`\n]*`/g, '').matchAll(/\]\(([^)\s#]+)[^)]*\)/g)]
    .map(([, target = '']) => target)
    .filter((target) => !/^[a-z]+:/.test(target))

/** Those of the paths that git ignores: they are made by running something. */
function ignored(paths: readonly string[]): string[] {
  const input = paths.map((path) => `${path}/`).join('\n')
  const { stdout } = spawnSync('git', ['check-ignore', '--stdin'], { cwd: repository, input, encoding: 'utf8' })
  return lines(stdout).map((path) => path.replace(/\/$/, ''))
}

test('every path in backticks in a Markdown file is a file or a folder of the repository, or of one of its folders', () => {
  const named = pages.flatMap((page) => namedPaths(textOf(page)).map((path) => ({ page, path })))
  expect(named.length).toBeGreaterThan(300)
  const missing = named.filter(({ path }) => !known.has(path))
  const made = new Set(ignored(missing.map(({ path }) => path)))
  expect(missing.filter(({ path }) => !made.has(path)).map(({ page, path }) => `${page}: ${path}`)).toEqual([])
})

test.each(['areas/edge/delivery', 'http/', 'infra/proxy/nginx.conf', 'vitest.config.ts', 'packages/gone/README.md'])(
  '%s is taken for a path of the repository',
  (word) => {
    expect(namedPaths(`Look into \`${word}\`.`)).toEqual([word.replace(/\/$/, '')])
  },
)

test.each(['vercel.json', '.vercel/output/config.json', '/docs/json', '@platform/sdk/pack', 'next/image', 'text/html'])(
  '%s is not taken for a path of the repository',
  (word) => {
    expect(namedPaths(`Look into \`${word}\`.`)).toEqual([])
  },
)

test('every link of a Markdown file to another file leads to one', () => {
  const links = pages.flatMap((page) => linkedFiles(textOf(page)).map((target) => ({ page, target })))
  expect(links.length).toBeGreaterThan(100)
  const isThere = (page: string, target: string) =>
    known.has(normalize(join(dirname(page), decodeURI(target))).replace(/\/$/, ''))
  expect(
    links.filter(({ page, target }) => !isThere(page, target)).map((link) => Object.values(link).join(': ')),
  ).toEqual([])
})
