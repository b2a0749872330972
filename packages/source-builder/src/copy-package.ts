import { existsSync, realpathSync } from 'node:fs'
import { cp, mkdir, readFile, rm, symlink } from 'node:fs/promises'
import { basename, dirname, join, relative } from 'node:path'

/** What is copied on its own, and what no program runs. */
const LEFT_OUT = /^node_modules$|\.(?:map|md|[cm]?ts)$/

/** The folder of a package for code in a folder, free of links. Throws if it is not installed. */
function findPackage(name: string, from: string): string {
  for (let folder = from; ; folder = dirname(folder)) {
    const found = join(folder, 'node_modules', name)
    if (existsSync(join(found, 'package.json'))) return realpathSync(found)
    if (folder === dirname(folder)) throw new Error(`The package ${name} is not installed for ${from}`)
  }
}

/**
 * Copies a package of this workspace with all that it depends on, so that one folder can be mounted: pnpm's links lead to folders all
 * over the workspace. The copy is such a graph of links too, within its folder; each version is in it once, and cycles are no matter.
 *
 * to: absolute; replaced. The package is then `node_modules/<name>` in it.
 */
export async function copyPackage(name: string, to: string): Promise<void> {
  await rm(to, { recursive: true, force: true })
  const copies = new Map<string, string>()
  const copy = async (each: string, source: string): Promise<string> => {
    const known = copies.get(source)
    if (known !== undefined) return known
    // The first is what the folder is for, and the others have folders of their own beside it.
    const modules = join(to, copies.size === 0 ? '' : String(copies.size), 'node_modules')
    const target = join(modules, each)
    copies.set(source, target)
    await cp(source, target, { recursive: true, filter: (path) => !LEFT_OUT.test(basename(path)) })
    const manifest: { dependencies?: Record<string, string> } = JSON.parse(
      await readFile(join(source, 'package.json'), 'utf8'),
    )
    for (const dependency of Object.keys(manifest.dependencies ?? {})) {
      const link = join(modules, dependency)
      await mkdir(dirname(link), { recursive: true })
      await symlink(relative(dirname(link), await copy(dependency, findPackage(dependency, source))), link)
    }
    return target
  }
  await copy(name, findPackage(name, import.meta.dirname))
}
