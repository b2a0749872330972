import { existsSync, globSync, readFileSync } from 'node:fs'
import { dirname, join, matchesGlob, relative, resolve } from 'node:path'
import { repository } from './workspace.ts'

const ROOT = '$TURBO_ROOT$/'
/** Lines that import, or find a file beside theirs. */
const FINDING = /^.*(?:\bfrom '|\bimport\(|import\.meta).*$/gm
/** A string that climbs out of its file's folder. */
const CLIMBING = /['"`]((?:\.\.\/)+[^'"`$\s]*|(?:\.\.\/)*\.\.)['"`]/g

/** Patterns of files outside of a package that its result depends on, from its turbo.json. */
export function declaredInputs(folder: string): string[] {
  const file = join(repository, folder, 'turbo.json')
  if (!existsSync(file)) return []
  const { tasks } = JSON.parse(readFileSync(file, 'utf8')) as { tasks: { test?: { inputs?: string[] } } }
  return (tasks.test?.inputs ?? []).filter((input) => input.startsWith(ROOT)).map((input) => input.slice(ROOT.length))
}

/**
 * Paths outside of a package, relative to the repository, that its TypeScript names: by an import, or to read a file. The empty path
 * is the repository itself.
 */
export function pathsOutside(folder: string): Map<string, string> {
  const outside = new Map<string, string>()
  const home = join(repository, folder)
  const files = globSync('**/*.{ts,mts}', {
    cwd: home,
    exclude: (name) => name === 'node_modules' || name === 'frameworks',
  })
  for (const file of files)
    for (const [, path = ''] of (readFileSync(join(home, file), 'utf8').match(FINDING) ?? [])
      .join('\n')
      .matchAll(CLIMBING)) {
      const target = resolve(home, dirname(file), path)
      const fromRoot = relative(repository, target)
      const isOutside = relative(home, target).startsWith('..') && !fromRoot.startsWith('..')
      if (isOutside && existsSync(target)) outside.set(fromRoot, `${folder}/${file}`)
    }
  return outside
}

/** Whether a pattern covers a file, or something in a folder. */
export const covers = (pattern: string, path: string): boolean =>
  matchesGlob(path, pattern) || matchesGlob(`${path}/any`, pattern) || pattern.startsWith(`${path}/`)
