const BEYOND_ASCII = /[^\0-\x7F]/
/** A path as requested: as bytes, each a character, or encoded. */
const REQUESTED_BEYOND_ASCII = /[^\0-\x7F]|%[89a-f]/i

/** Returns what two paths have in common that differ only in upper and lower case, or in the Unicode normal form. */
export function foldName(path: string): string {
  return path.normalize('NFC').toUpperCase().toLowerCase().normalize('NFC')
}

/** True for a path of a request that can name a file in another normal form than its own. */
export const isBeyondAscii = (requestPath: string): boolean => REQUESTED_BEYOND_ASCII.test(requestPath)

/** Returns the path of the file that a path names in another Unicode normal form; undefined: there is none. */
export type SpellingOf = (path: string) => string | undefined

/**
 * Indexes the paths of a deployment's files by their normal form: macOS decomposes accents, most keyboards compose them. Returns
 * undefined if all names are ASCII. Of two files that differ by nothing else, the composed one has the other spellings.
 */
export function indexSpellings(paths: Iterable<string>): SpellingOf | undefined {
  const spellings = new Map<string, string>()
  for (const path of paths) {
    if (!BEYOND_ASCII.test(path)) continue
    const composed = path.normalize('NFC')
    if (path === composed || !spellings.has(composed)) spellings.set(composed, path)
  }
  return spellings.size === 0 ? undefined : (path) => spellings.get(path.normalize('NFC'))
}
