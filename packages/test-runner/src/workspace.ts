import { existsSync, globSync, readFileSync, statSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'

/** The repository's folder. */
export const repository = resolve(import.meta.dirname, '../../..')

const PACKAGES = ['services/*', 'packages/*', 'testing', 'infra', 'bench']

interface WorkspacePackage {
  name: string
  /** Relative to the repository. */
  folder: string
}

const nameOf = (folder: string): string =>
  (JSON.parse(readFileSync(join(repository, folder, 'package.json'), 'utf8')) as { name: string }).name

/** The packages that have tests. */
export const testedPackages = (): WorkspacePackage[] =>
  globSync(PACKAGES, { cwd: repository })
    .filter((folder) => existsSync(join(repository, folder, 'vitest.config.ts')))
    .sort()
    .map((folder) => ({ name: nameOf(folder), folder }))

/**
 * The package of a test file, and the file's path in it; undefined if there is no such file in a package with tests.
 *
 * path: absolute, or relative to where the command was called.
 */
export function locateTestFile(path: string): (WorkspacePackage & { file: string }) | undefined {
  const file = resolve(path)
  if (!statSync(file, { throwIfNoEntry: false })?.isFile()) return undefined
  for (let folder = dirname(file); folder !== dirname(folder); folder = dirname(folder))
    if (existsSync(join(folder, 'vitest.config.ts')))
      return {
        name: nameOf(relative(repository, folder)),
        folder: relative(repository, folder),
        file: relative(folder, file),
      }
  return undefined
}
