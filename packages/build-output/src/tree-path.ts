import { UnusableOutput } from './output.ts'

/**
 * Resolves a path in a manifest against the folder it is relative to, without looking at files.
 *
 * folder: from the archive's root, '' for the root itself. what: the subject of the error, for example `The override`.
 * Returns a path from the archive's root. Throws UnusableOutput if the path is absolute or leads out of `within`.
 */
export function treePath(path: string, folder: string, what: string, within = folder): string {
  const segments = folder === '' ? [] : folder.split('/')
  const floor = within === '' ? 0 : within.split('/').length
  const refuse = (): never => {
    throw new UnusableOutput(`${what} ${JSON.stringify(path)} leads outside of what was uploaded.`)
  }
  if (path.startsWith('/') || path.includes('\\') || path.includes('\0')) refuse()
  for (const segment of path.split('/')) {
    if (segment === '..') {
      if (segments.length <= floor) refuse()
      segments.pop()
    } else if (segment !== '' && segment !== '.') segments.push(segment)
  }
  return segments.join('/')
}
