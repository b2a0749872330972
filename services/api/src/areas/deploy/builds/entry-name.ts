import { type Entry, getFileNameLowLevel } from 'yauzl'
import { refuse, shown } from './refuse-entry.ts'

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
/** The flag of a name in UTF-8 (APPNOTE 4.4.4, bit 11). */
const UTF8_FLAG = 0x800

interface EntryName {
  name: string
  /** True if neither a flag nor the bytes say what they are: code page 437 is what the format had before UTF-8 (APPNOTE D.1). */
  isGuessed: boolean
}

/**
 * Decodes the name of an entry. Info-ZIP, and Archive Utility of macOS, write UTF-8 without its flag, so a name that is
 * valid UTF-8 is read as UTF-8, whichever tool made the archive.
 *
 * Throws UnusableOutput for a name that has the flag and is not UTF-8.
 */
export function nameOf(entry: Entry): EntryName {
  const raw = entry.fileName as unknown as Buffer // a Buffer, since decodeStrings is false
  const decode = (flags: number): string => getFileNameLowLevel(flags, raw, entry.extraFields, true)
  const hasFlag = (entry.generalPurposeBitFlag & UTF8_FLAG) !== 0
  const old = decode(0)
  // The same in both: ASCII, or there is a field with the name in Unicode (0x7075).
  if (!hasFlag && old === decode(UTF8_FLAG)) return { name: old, isGuessed: false }
  try {
    return { name: utf8.decode(raw), isGuessed: false }
  } catch {
    if (hasFlag) throw refuse(raw.toString('latin1'), 'has a name that is not valid UTF-8')
    return { name: old, isGuessed: true }
  }
}

/** Names the first of the names that were guessed, and counts the others. Returns no warning if there is none. */
export function warnOfGuesses(names: readonly string[]): string[] {
  const [first] = names
  if (first === undefined) return []
  const others = names.length === 1 ? '' : `, and so are ${names.length - 1} more`
  return [
    `The name ${shown(first)} is not in UTF-8 and is read in code page 437${others}: zip with a tool that writes UTF-8 if it is wrong`,
  ]
}
