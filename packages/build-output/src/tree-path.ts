import { UnusableOutput } from './output.ts'

/**
 * Resolves a path that a manifest names against the folder it counts from, by text alone.
 *
 * folder: from the archive's root, '' for the root itself. what: the subject of the error, as `The override`.
 * Returns a path from the archive's root. Throws UnusableOutput for one that is absolute or leads out of `within`.
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
