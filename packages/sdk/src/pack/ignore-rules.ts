import ignore from 'ignore'
import { folderOf } from './source.ts'

/** The files that say what is left out, the stronger one last. */
export const IGNORE_FILES = ['.gitignore', '.platformignore']

/** A rule of a folder below the top, as the same rule of the top: one list then decides as git does, the last match first. */
function rebase(rule: string, folder: string): string[] {
  if (folder === '') return [rule]
  if (rule.trim() === '' || rule.startsWith('#')) return []
  const [, not = '', slash = '', pattern = ''] = /^(!?)(\/?)(.*)$/.exec(rule) ?? []
  // A lone slash matches nothing.
  if (pattern.trim() === '') return []
  const isAnchored = slash !== '' || /\/[^/]/.test(pattern.trimEnd())
  return [`${not}/${folder.replace(/[\\*?[\]!# ]/g, '\\$&')}/${isAnchored ? '' : '**/'}${pattern}`]
}

/** What the files of a folder that are called `.gitignore` and `.platformignore` leave out. Upper and lower case differ. */
export class IgnoreRules {
  readonly #rules = ignore({ ignorecase: false })

  /** Adds the rules of a file, those of its parents' folders first. */
  add(file: string, text: string): void {
    for (const rule of text.split(/\r?\n/))
      for (const pattern of rebase(rule, folderOf(file)))
        this.#rules.add({ pattern, mark: `matches \`${rule.trim()}\` in ${file}` })
  }

  /** Why a path is left out; undefined if it is not. The folders above it are not left out. */
  find(path: string, isFolder: boolean): string | undefined {
    return this.#rules.test(isFolder ? `${path}/` : path).rule?.mark
  }
}
