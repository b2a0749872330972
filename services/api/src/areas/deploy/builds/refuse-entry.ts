import { UnusableOutput } from '@platform/build-output/read-output'

/** Files and links of an archive, those that its links lead to included. */
export const ENTRIES_MAX = 50_000
/** Names of a path. */
export const DEPTH_MAX = 64

/** A path quoted for a sentence, without control characters and cut to a limit. */
export const shown = (path: string): string => {
  const text = JSON.stringify(path)
  return text.length > 200 ? `${text.slice(0, 200)}…"` : text
}

/** The error that tells the author why an entry of the archive cannot be unpacked. */
export const refuse = (path: string, why: string): UnusableOutput =>
  new UnusableOutput(`The archive's entry ${shown(path)} ${why}`)
