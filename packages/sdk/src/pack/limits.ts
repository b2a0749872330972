import type { PackFile, PackLink } from './source.ts'

const MIB = 1_048_576

// These are the service's, from unpack-archive.ts and refuse-entry.ts of its feature `builds`; a test compares them.
export const ENTRIES_MAX = 50_000
export const FILE_BYTES_MAX = 100 * MIB
export const DEPTH_MAX = 64
export const NAME_BYTES_MAX = 255
export const PATH_BYTES_MAX = 2_048
export const LINK_BYTES_MAX = 4_096
export const LIST_BYTES_MAX = 32 * MIB
/** How many times its packed size content may have, beyond the first mebibyte. */
export const RATIO_MAX = 200
export const RATIO_FREE_BYTES = MIB

/** What a zip without Zip64 can hold. */
const ZIP_ENTRIES_MAX = 65_535
export const ZIP_BYTES_MAX = 2 ** 32 - 1

export interface PackLimits {
  /** Files and links; 50,000. */
  entries?: number | undefined
  /** Of one file; 100 MiB. */
  fileBytes?: number | undefined
  /** Of the zip: `archive_bytes` of the organization's quotas. */
  archiveBytes?: number | undefined
  /** Of all files: `unpacked_bytes` of the organization's quotas. */
  unpackedBytes?: number | undefined
}

export interface TooLarge {
  path: string
  bytes: number
  limit: number
}

const utf8 = new TextEncoder()
const byteLength = (text: string): number => utf8.encode(text).length
export const mebibytes = (bytes: number): string => `${Math.ceil((bytes / MIB) * 10) / 10} MiB`

/** Why the platform refuses a path; undefined if it does not. */
function refusePath(path: string): string | undefined {
  // oxlint-disable-next-line no-control-regex -- these are what is looked for
  if (/[\u0000-\u001f\u007f]/.test(path)) return 'has a control character in its name'
  if (path.includes('\\')) return 'has a backslash in its name'
  if (/^[A-Za-z]:/.test(path)) return 'begins like a drive of Windows'
  const segments = path.split('/')
  if (segments.length > DEPTH_MAX) return `lies more than ${DEPTH_MAX} folders deep`
  if (segments.some((segment) => byteLength(segment) > NAME_BYTES_MAX))
    return `has a name of more than ${NAME_BYTES_MAX} bytes`
  return byteLength(path) > PATH_BYTES_MAX ? `has a path of more than ${PATH_BYTES_MAX} bytes` : undefined
}

/** Pairs of paths that are one to file systems which do not tell upper and lower case or the spelling of accents apart. */
function findCollisions(paths: Iterable<string>): string[] {
  const places = new Set<string>()
  const spellings = new Map<string, string>()
  const sentences: string[] = []
  for (const path of paths)
    for (let end = 0; end !== -1;) {
      end = path.indexOf('/', end + 1)
      const place = end === -1 ? path : path.slice(0, end)
      if (places.has(place)) continue
      places.add(place)
      const folded = place.normalize('NFC').toUpperCase().toLowerCase().normalize('NFC')
      const known = spellings.get(folded)
      if (known === undefined) spellings.set(folded, place)
      else sentences.push(`${known} and ${place} differ in upper and lower case or in the spelling of accents alone`)
    }
  return sentences
}

/**
 * Sentences about what the platform would refuse, but for the size of the archive. prefix: before each path in the archive. tooLarge
 * lists the files that are.
 */
export function checkLimits(
  files: readonly (PackFile | PackLink)[],
  prefix: string,
  { entries = ENTRIES_MAX, fileBytes = FILE_BYTES_MAX, unpackedBytes = Infinity }: PackLimits,
): { tooLarge: TooLarge[]; refusals: string[] } {
  const tooLarge: TooLarge[] = []
  const refusals: string[] = []
  const most = Math.min(entries, ZIP_ENTRIES_MAX)
  if (files.length > most) refusals.push(`There are ${files.length} files and links; ${most} are allowed`)
  let listBytes = 0
  let bytes = 0
  for (const file of files) {
    const why = refusePath(prefix + file.path)
    if (why !== undefined) refusals.push(`${JSON.stringify(file.path)} ${why}`)
    listBytes += byteLength(prefix + file.path)
    if (file.kind === 'link') {
      if (byteLength(file.target) > LINK_BYTES_MAX) refusals.push(`${file.path} is a link with too long a target`)
      continue
    }
    bytes += file.bytes
    if (file.bytes <= fileBytes) continue
    tooLarge.push({ path: file.path, bytes: file.bytes, limit: fileBytes })
    refusals.push(`${file.path} has ${mebibytes(file.bytes)}; ${mebibytes(fileBytes)} are allowed`)
  }
  if (listBytes > LIST_BYTES_MAX) refusals.push(`All paths together have more than ${mebibytes(LIST_BYTES_MAX)}`)
  if (bytes > unpackedBytes)
    refusals.push(`All files together have ${mebibytes(bytes)}; ${mebibytes(unpackedBytes)} are allowed`)
  refusals.push(...findCollisions(files.map(({ path }) => path)))
  return { tooLarge, refusals }
}

/** More bytes than the zip of these files has, however badly they pack. */
export const archiveBytesMax = (files: readonly (PackFile | PackLink)[], prefix: string): number =>
  files.reduce((sum, file) => {
    const content = file.kind === 'file' ? Math.ceil(file.bytes * 1.01) : byteLength(file.target)
    return sum + content + 2 * byteLength(prefix + file.path) + 128
  }, 128)
