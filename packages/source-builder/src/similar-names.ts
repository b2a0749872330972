import { foldName } from '@platform/build-output/file-names'
import type { Warnings } from '@platform/build-output/warnings'

const INSTALLED = /(?:^|\/)node_modules\//

/**
 * Warns of files and folders of a build that differ from another only in upper and lower case, or in the Unicode normal form: an
 * archive with both is refused, since most people's disks hold one of them. Packages are left out; nobody edits these.
 *
 * root: of the output; paths in sentences are as the build made them.
 */
export function warnOfSimilarNames(
  paths: Iterable<string>,
  root: string,
  warnings: Warnings,
  shown: (path: string) => string,
): void {
  const below = root === '' ? '' : `${root}/`
  /** Whether a path is the first of its name. */
  const seen = new Map<string, boolean>()
  const spellings = new Map<string, string>()
  const isFirst = (path: string): boolean => {
    const known = seen.get(path)
    if (known !== undefined) return known
    const folded = foldName(path)
    const spelling = spellings.get(folded)
    seen.set(path, spelling === undefined)
    if (spelling === undefined) {
      spellings.set(folded, path)
      return true
    }
    warnings.add(
      `${shown(path)} differs from ${shown(spelling)} in upper and lower case or in the spelling of accents alone; an archive with both is refused`,
    )
    return false
  }
  for (const path of paths) {
    if (!path.startsWith(below) || INSTALLED.test(path)) continue
    // What lies in a similar folder is told by the folder.
    let isNew = true
    for (let slash = path.indexOf('/', below.length); isNew && slash !== -1; slash = path.indexOf('/', slash + 1))
      isNew = isFirst(path.slice(0, slash))
    if (isNew) isFirst(path)
  }
}
