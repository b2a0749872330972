import { createHash } from 'node:crypto'
import { constants } from 'node:fs'
import { type FileHandle, mkdir, open, readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { crc32, inflateRawSync } from 'node:zlib'
import { foldName } from '@platform/build-output/file-names'
import { type Tree, UnusableOutput } from '@platform/build-output/read-output'
import { type Entry, fromRandomAccessReaderPromise, type ZipFile } from 'yauzl'
import { findArchiveStart } from './archive-bounds.ts'
import { ArchiveReader } from './archive-reader.ts'
import { nameOf, warnOfGuesses } from './entry-name.ts'
import { followLinks } from './follow-links.ts'
import { DEPTH_MAX, ENTRIES_MAX, refuse, shown } from './refuse-entry.ts'

const MIB = 1_048_576
const FILE_BYTES_MAX = 100 * MIB
/** Maximum ratio of unpacked to packed bytes; content below a mebibyte may have any ratio. */
const RATIO_MAX = 200
const RATIO_FREE_BYTES = MIB
const NAME_BYTES_MAX = 255
const PATH_BYTES_MAX = 2_048
const LINK_BYTES_MAX = 4_096
/** The signature of a header in the central directory. */
const LISTED = Buffer.from('PK\x01\x02')
/** Limit for names, comments and extra fields of all entries, which stay in memory. */
const LIST_BYTES_MAX = 32 * MIB
const UNPACK_MS = 120_000
const WRITTEN_AT_ONCE = 8
/** Content up to this size, packed and unpacked, is read in one go. */
const SMALL_BYTES_MAX = 262_144

/** An unpacked file. */
interface UnpackedFile {
  bytes: number
  sha256: Buffer
  /** Absolute path of its content, free of links. */
  source: string
  isExecutable: boolean
}

/** The contents of an archive. Links are resolved: a path below a linked folder is a file like any other. */
export interface Unpacked extends Tree {
  files: ReadonlyMap<string, UnpackedFile>
  /** The archive's own links by path, with their targets as written, for source builds. */
  writtenLinks: ReadonlyMap<string, string>
  /** A file of `files` with its content. */
  content(path: string): Promise<UnpackedFile>
  /** Sentences about links that were skipped. */
  warnings: string[]
}

/** A validated entry, before its content is read. */
interface Checked {
  entry: Entry
  /** Offset of its content in the archive; set once all entries are located. */
  start: number
  path: string
  kind: 'file' | 'link'
  isExecutable: boolean
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** The path of an entry relative to the archive's root, without `.` and doubled slashes; '' for the root itself. */
function pathOf(name: string): string {
  // oxlint-disable-next-line no-control-regex -- these are what is looked for
  if (/[\u0000-\u001f\u007f]/.test(name)) throw refuse(name, 'has a control character in its name')
  if (name.includes('\\')) throw refuse(name, 'has a backslash in its name; use / between folders')
  if (name.startsWith('/') || /^[A-Za-z]:/.test(name)) throw refuse(name, 'has an absolute path')
  const segments = name.split('/').filter((segment) => segment !== '' && segment !== '.')
  if (segments.includes('..')) throw refuse(name, 'leads out of the archive')
  if (segments.length > DEPTH_MAX) throw refuse(name, `lies more than ${DEPTH_MAX} folders deep`)
  if (segments.some((segment) => Buffer.byteLength(segment) > NAME_BYTES_MAX))
    throw refuse(name, `has a name of more than ${NAME_BYTES_MAX} bytes`)
  if (Buffer.byteLength(name) > PATH_BYTES_MAX) throw refuse(name, `has a path of more than ${PATH_BYTES_MAX} bytes`)
  return segments.join('/')
}

type Kind = 'file' | 'folder' | 'link'

function kindOf(entry: Entry, name: string): Kind {
  const isFolder = name.endsWith('/')
  // Unix and macOS store the mode in the upper half.
  const mode = [3, 19].includes(entry.versionMadeBy >> 8) ? entry.externalFileAttributes >>> 16 : 0
  switch (mode & constants.S_IFMT) {
    case 0:
      return isFolder ? 'folder' : 'file'
    case constants.S_IFREG:
      if (isFolder) throw refuse(name, 'is named as a folder and marked as a file')
      return 'file'
    case constants.S_IFDIR:
      return 'folder'
    case constants.S_IFLNK:
      if (isFolder) throw refuse(name, 'is named as a folder and marked as a link')
      return 'link'
    default:
      throw refuse(name, 'is neither a file nor a folder nor a link')
  }
}

/** The paths in use and their kinds. Paths that differ only in case or Unicode normalization collide. */
class Places {
  readonly #kinds = new Map<string, Kind>()
  readonly #spellings = new Map<string, string>()

  #take(path: string, kind: Kind, isImplied: boolean): void {
    const known = this.#kinds.get(path)
    if (known === 'folder' && kind === 'folder') return
    if (known === 'link' && isImplied) throw refuse(path, 'is a link, and other entries lie below it')
    if (known !== undefined && known === kind) throw refuse(path, 'is there twice')
    if (known !== undefined) throw refuse(path, `is there as a ${known} and as a ${kind}`)
    const folded = foldName(path)
    const spelling = this.#spellings.get(folded)
    if (spelling !== undefined)
      throw refuse(path, `differs from ${shown(spelling)} in upper and lower case or in the spelling of accents alone`)
    this.#spellings.set(folded, path)
    this.#kinds.set(path, kind)
  }

  add(path: string, kind: Kind): void {
    for (let slash = path.indexOf('/'); slash !== -1; slash = path.indexOf('/', slash + 1))
      this.#take(path.slice(0, slash), 'folder', true)
    this.#take(path, kind, false)
  }

  has = (path: string): boolean => path === '' || this.#kinds.has(path)
}

/** Reads and validates the whole list of entries before anything is unpacked. */
async function checkEntries(
  zip: ZipFile,
  unpackedBytesMax: number,
): Promise<{ entries: Checked[]; places: Places; warnings: string[] }> {
  if (zip.entryCount > ENTRIES_MAX)
    throw new UnusableOutput(`The archive has ${zip.entryCount} entries; ${ENTRIES_MAX} are allowed`)
  const places = new Places()
  const entries: Checked[] = []
  let unpackedBytes = 0
  let packedBytes = 0
  let listBytes = 0
  const guessed: string[] = []
  for await (const entry of zip.eachEntry()) {
    listBytes += entry.fileNameLength + entry.extraFieldLength + entry.fileCommentLength
    if (listBytes > LIST_BYTES_MAX)
      throw new UnusableOutput(
        `The names and comments of the archive's entries are longer than ${LIST_BYTES_MAX / MIB} MiB`,
      )
    const { name, isGuessed } = nameOf(entry)
    if (isGuessed) guessed.push(name)
    const path = pathOf(name)
    const kind = kindOf(entry, name)
    if (path === '') {
      if (kind === 'folder') continue
      throw refuse(name, 'has no name')
    }
    places.add(path, kind)
    if (kind === 'folder') {
      if (entry.uncompressedSize > 0) throw refuse(name, 'is a folder with content')
      continue
    }
    if (entry.isEncrypted()) throw refuse(path, 'is encrypted')
    if (!entry.canDecodeFileData())
      throw refuse(path, `is compressed by method ${entry.compressionMethod}; use deflate`)
    const { uncompressedSize: bytes, compressedSize } = entry
    if (bytes > FILE_BYTES_MAX) throw refuse(path, `is larger than ${FILE_BYTES_MAX / MIB} MiB`)
    if (kind === 'link' && bytes > LINK_BYTES_MAX) throw refuse(path, 'is a link with too long a target')
    if (bytes > RATIO_FREE_BYTES && bytes > compressedSize * RATIO_MAX)
      throw refuse(path, `unpacks to more than ${RATIO_MAX} times its size`)
    unpackedBytes += bytes
    packedBytes += compressedSize
    if (unpackedBytes > unpackedBytesMax)
      throw new UnusableOutput(`The archive unpacks to more than ${Math.floor(unpackedBytesMax / MIB)} MiB`)
    // Any execute bit: owner's, group's or others'.
    const isExecutable = ((entry.externalFileAttributes >>> 16) & 0o111) !== 0
    entries.push({ entry, start: 0, path, kind, isExecutable })
  }
  if (unpackedBytes > RATIO_FREE_BYTES && unpackedBytes > packedBytes * RATIO_MAX)
    throw new UnusableOutput(`The archive unpacks to more than ${RATIO_MAX} times its size`)
  return { entries, places, warnings: warnOfGuesses(guessed) }
}

/** Refuses a central directory with more entries than it declares: without Zip64 the count wraps at 65,536. */
async function requireWhole(zip: ZipFile, archive: ArchiveReader): Promise<void> {
  const cursor = zip.readEntryCursor as unknown as number // its types are wrong
  const behind = await archive.readAt(cursor, LISTED.length)
  if (behind.equals(LISTED))
    throw new UnusableOutput(
      `The archive says that it has ${zip.entryCount} entries, and lists more: make it with a tool that knows Zip64`,
    )
}

/**
 * Locates the content of each entry. Refuses entries that share bytes, since these let small archives unpack to enormous ones.
 */
async function locate(zip: ZipFile, entries: readonly Checked[]): Promise<void> {
  for (const checked of entries) {
    const { entry, path } = checked
    const header = await zip.readLocalFileHeaderPromise(entry)
    if (!header.fileName.equals(entry.fileName as unknown as Buffer))
      throw refuse(path, 'has two names: its own and that of the list differ')
    checked.start = header.fileDataStart
  }
  const inOrder = entries.toSorted((a, b) => a.entry.relativeOffsetOfLocalHeader - b.entry.relativeOffsetOfLocalHeader)
  for (const [n, { start, entry, path }] of inOrder.entries()) {
    const next = inOrder[n + 1]
    if (next && next.entry.relativeOffsetOfLocalHeader < start + entry.compressedSize)
      throw refuse(next.path, `overlaps ${shown(path)}`)
  }
}

/** The whole content of a small entry; takes a tenth of the time of five chained streams. */
async function readSmall(archive: ArchiveReader, { entry, start }: Checked): Promise<Buffer> {
  const packed = await archive.readAt(start, entry.compressedSize)
  if (entry.compressionMethod === 0) return packed
  let content: Buffer
  try {
    content = inflateRawSync(packed, { maxOutputLength: Math.max(entry.uncompressedSize, 1) })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_BUFFER_TOO_LARGE') throw error
    throw new Error(`too many bytes; ${entry.uncompressedSize} were declared`, { cause: error })
  }
  if (content.length === entry.uncompressedSize) return content
  const many = content.length < entry.uncompressedSize ? 'not enough' : 'too many'
  throw new Error(`${many} bytes; ${entry.uncompressedSize} were declared`)
}

/** Streams the content of an entry, verified against its declared length and checksum. */
async function* contentOf(
  zip: ZipFile,
  archive: ArchiveReader,
  checked: Checked,
  signal: AbortSignal,
): AsyncGenerator<Buffer> {
  const { entry, path } = checked
  let crc = 0
  try {
    if (entry.compressedSize <= SMALL_BYTES_MAX && entry.uncompressedSize <= SMALL_BYTES_MAX) {
      const content = await readSmall(archive, checked)
      crc = crc32(content)
      yield content
    } else
      for await (const chunk of (await zip.openReadStreamPromise(entry)) as AsyncIterable<Buffer>) {
        signal.throwIfAborted()
        crc = crc32(chunk, crc)
        yield chunk
      }
  } catch (error) {
    signal.throwIfAborted()
    if (isOfThisMachine(error)) throw error
    throw refuse(path, `cannot be unpacked: ${(error as Error).message}`)
  }
  if (crc !== entry.crc32) throw refuse(path, 'does not match its checksum')
}

async function writeFileOnce(path: string, isExecutable: boolean, content: AsyncIterable<Buffer>): Promise<Buffer> {
  const { O_WRONLY, O_CREAT, O_EXCL, O_NOFOLLOW } = constants
  const file: FileHandle = await open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, isExecutable ? 0o700 : 0o600)
  const sha256 = createHash('sha256')
  try {
    for await (const chunk of content) {
      sha256.update(chunk)
      await file.writeFile(chunk)
    }
  } finally {
    await file.close()
  }
  return sha256.digest()
}

async function readLink(content: AsyncIterable<Buffer>, path: string): Promise<string> {
  const chunks = await Array.fromAsync(content)
  try {
    return utf8.decode(Buffer.concat(chunks))
  } catch {
    throw refuse(path, 'is a link whose target is not valid UTF-8')
  }
}

const damaged = (error: unknown): UnusableOutput =>
  error instanceof UnusableOutput
    ? error
    : new UnusableOutput(`The archive cannot be read as a zip file: ${(error as Error).message}`)

/**
 * Unpacks a zip into an empty folder that nobody else writes to. The whole list of entries is validated before the first byte is
 * written, and each file while it is written. Links are never created: they are resolved among the entries, and those that lead
 * nowhere, outside or in a circle are skipped with a warning.
 *
 * folder: absolute; created here. The caller removes it, even if this throws. unpackedBytesMax: of all files together.
 * Throws UnusableOutput with a sentence that names the entry, or the abort reason of `signal`.
 */
export async function unpackArchive(
  archive: string,
  folder: string,
  { unpackedBytesMax, signal: stop }: { unpackedBytesMax: number; signal: AbortSignal },
): Promise<Unpacked> {
  const late = AbortSignal.timeout(UNPACK_MS)
  const signal = AbortSignal.any([stop, late])
  const files = new Map<string, UnpackedFile>()
  const links = new Map<string, string>()
  await using file = await open(archive, 'r')
  let zip: ZipFile | undefined
  try {
    const { size } = await file.stat()
    const start = await findArchiveStart(new ArchiveReader(file), size)
    const reader = new ArchiveReader(file, start)
    zip = await fromRandomAccessReaderPromise(reader, size - start, {
      autoClose: false,
      decodeStrings: false,
      strictFileNames: true,
    })
    zip.on('error', () => {}) // relevant errors also reject the awaited calls
    const { entries, places, warnings: guesses } = await checkEntries(zip, unpackedBytesMax)
    await requireWhole(zip, reader)
    await locate(zip, entries)
    await mkdir(folder, { mode: 0o700 })
    const made = new Map<string, Promise<unknown>>([[folder, Promise.resolve()]])
    const makeFolder = (path: string): Promise<unknown> => {
      const known = made.get(path)
      if (known) return known
      const making = makeFolder(dirname(path)).then(() => mkdir(path, { mode: 0o700 }))
      made.set(path, making)
      return making
    }
    const queue = entries.values()
    const unpackNext = async (opened: ZipFile): Promise<void> => {
      for (const checked of queue) {
        signal.throwIfAborted()
        const { path, kind, isExecutable, entry } = checked
        const content = contentOf(opened, reader, checked, signal)
        if (kind === 'link') {
          links.set(path, await readLink(content, path))
          continue
        }
        const source = join(folder, path)
        await makeFolder(dirname(source))
        const sha256 = await writeFileOnce(source, isExecutable, content)
        files.set(path, { bytes: entry.uncompressedSize, sha256, source, isExecutable })
      }
    }
    const opened = zip
    const outcomes = await Promise.allSettled(Array.from({ length: WRITTEN_AT_ONCE }, () => unpackNext(opened)))
    for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason
    const warnings = [...guesses, ...(await followLinks(files, links, { places, bytesMax: unpackedBytesMax, signal }))]
    if (start > 0)
      warnings.unshift(`The file begins with ${start} bytes that are not of the archive; they are left out`)
    const content = async (path: string): Promise<UnpackedFile> => {
      const unpackedFile = files.get(path)
      if (!unpackedFile) throw new Error(`The archive has no file ${shown(path)}`)
      return unpackedFile
    }
    return {
      files,
      writtenLinks: links,
      warnings,
      content,
      read: async (path) => readFile((await content(path)).source),
    }
  } catch (error) {
    stop.throwIfAborted()
    if (late.aborted) throw new UnusableOutput(`Unpacking the archive took longer than ${UNPACK_MS / 1_000} seconds`)
    if (isOfThisMachine(error)) throw error
    throw damaged(error)
  } finally {
    zip?.close()
  }
}

/** True for failures of the machine, such as a full disk, which no archive causes. */
const isOfThisMachine = (error: unknown): boolean =>
  error instanceof Error && 'syscall' in error && !(error instanceof UnusableOutput)
