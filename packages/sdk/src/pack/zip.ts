import { Deflate, Zip, ZipDeflate, ZipPassThrough } from 'fflate'
import type { PackFile, PackLink } from './source.ts'

/** What is packed: the files and links of a plan, and what is wrong with it. */
export interface Packable {
  /** In the order of the bytes of their names. */
  files: readonly (PackFile | PackLink)[]
  /** Before each path in the archive; '' or with a trailing slash. */
  prefix: string
  /** Of the source. */
  deflate?: ((content: Uint8Array) => Uint8Array) | undefined
  /** Why it cannot be deployed, a sentence each. */
  refusals: readonly string[]
}

/** The method of an entry (APPNOTE 4.4.5). */
const DEFLATED = 8
const UNIX = 3
const FILE = 0o100_644
const EXECUTABLE = 0o100_755
const LINK = 0o120_777
/** A quarter of a megabyte for the tables of a small file is most of its time. */
const DEFLATE = { level: 6, mem: 4 } as const
/** What is packed at once. The bytes that come out depend on it, so a file is always cut alike. */
const PIECE_BYTES = 65_536
/** Small files that are read at a time. */
const READ_AHEAD = 16
/** What is given on at once, if there is so much. */
const CHUNK_BYTES = 65_536

/**
 * Packs what a plan names: equal files make equal bytes. Reads a file when its turn comes, piece by piece, and no further than the
 * stream is read but for a few small files. Throws an Error that names the first refusal of the plan; the stream fails with one that names a file which was
 * changed or removed since the plan.
 */
export function zip(plan: Packable): ReadableStream<Uint8Array> {
  const [first, ...others] = plan.refusals
  if (first !== undefined)
    throw new Error(`This cannot be deployed. ${first}${others.length > 0 ? `, and ${others.length} more` : ''}`)
  const chunks = zipChunks(plan)
  return new ReadableStream(
    {
      async pull(controller) {
        const { done, value } = await chunks.next()
        if (done === true) controller.close()
        else controller.enqueue(value)
      },
      async cancel() {
        await chunks.return(undefined)
      },
    },
    { highWaterMark: 0 },
  )
}

/** The bytes of a zip. For what counts them too, whatever is wrong with the plan. */
export async function* zipChunks({
  files,
  prefix,
  deflate,
}: Omit<Packable, 'refusals'>): AsyncGenerator<Uint8Array, undefined> {
  let pending: Uint8Array[] = []
  let pendingBytes = 0
  // A zip has no time zone: it is the local time that has to be the same everywhere.
  const mtime = new Date(1980, 0, 1, 12)
  const archive = new Zip((error, chunk) => {
    if (error) throw error
    pending.push(chunk)
    pendingBytes += chunk.length
  })
  const take = (): Uint8Array => {
    const taken = new Uint8Array(pendingBytes)
    let filled = 0
    for (const chunk of pending) {
      taken.set(chunk, filled)
      filled += chunk.length
    }
    pending = []
    pendingBytes = 0
    return taken
  }
  const readSoon = openReading(files)
  for (const [index, file] of files.entries()) {
    const name = prefix + file.path
    const entry = entryOf(file, name, deflate)
    const mode = file.kind === 'link' ? LINK : file.isExecutable ? EXECUTABLE : FILE
    Object.assign(entry, { mtime, os: UNIX, attrs: (mode << 16) >>> 0 })
    archive.add(entry)
    if (file.kind === 'link') entry.push(new TextEncoder().encode(file.target), true)
    else if (isSmall(file)) entry.push(await readSoon(index), true)
    else
      for await (const { piece, isLast } of piecesOf(file)) {
        entry.push(piece, isLast)
        if (pendingBytes >= CHUNK_BYTES) yield take()
      }
    if (pendingBytes >= CHUNK_BYTES) yield take()
  }
  archive.end()
  yield take()
}

/** Whether a file comes in one piece. */
const isSmall = (file: PackFile | PackLink): file is PackFile => file.kind === 'file' && file.bytes <= PIECE_BYTES

/**
 * Reads small files by their places, and begins with those that follow: to wait for each by itself takes longer than to pack it. A
 * failure is thrown where it is that file's turn.
 */
function openReading(files: Packable['files']): (index: number) => Promise<Uint8Array> {
  const reading = new Map<number, Promise<Uint8Array>>()
  return (index) => {
    for (let next = index; next < Math.min(index + READ_AHEAD, files.length); next++) {
      const file = files[next]
      if (!file || !isSmall(file) || reading.has(next)) continue
      const content = readPiece(file)
      content.catch(() => {})
      reading.set(next, content)
    }
    const content = reading.get(index) as Promise<Uint8Array>
    reading.delete(index)
    return content
  }
}

async function readPiece(file: PackFile): Promise<Uint8Array> {
  const { value } = await piecesOf(file).next()
  return (value as { piece: Uint8Array }).piece
}

/** An entry of the archive. A file that comes in one piece is deflated by the machine, where it can. */
function entryOf(file: PackFile | PackLink, name: string, deflate: Packable['deflate']): ZipPassThrough | ZipDeflate {
  if (file.kind === 'link') return new ZipPassThrough(name)
  if (!deflate || !isSmall(file)) return new ZipDeflate(name, DEFLATE)
  const entry = new ZipPassThrough(name)
  entry.compression = DEFLATED
  // It counts and sums up what it is given; what it passes on is ours to make.
  Object.assign(entry, {
    process: (piece: Uint8Array) => entry.ondata(null, new Uint8Array(deflate(piece)), true),
  })
  return entry
}

/** Whether files have more than `ratio` times the bytes they are packed to. Packs no more of them than it takes to tell. */
export async function isOverRatio(files: readonly PackFile[], ratio: number): Promise<boolean> {
  const bytes = files.reduce((sum, file) => sum + file.bytes, 0)
  let packedBytes = 0
  for (const file of files) {
    const deflate = new Deflate(DEFLATE, (chunk) => void (packedBytes += chunk.length))
    for await (const { piece, isLast } of piecesOf(file)) {
      deflate.push(piece, isLast)
      if (bytes <= packedBytes * ratio) return false
    }
  }
  return bytes > packedBytes * ratio
}

/** A file in pieces of one size, of which each is good until the next. Throws an Error if it has not as many bytes as it had. */
async function* piecesOf(file: PackFile): AsyncGenerator<{ piece: Uint8Array; isLast: boolean }> {
  const piece = new Uint8Array(Math.min(PIECE_BYTES, file.bytes))
  let filled = 0
  let bytes = 0
  try {
    for await (const chunk of file.open()) {
      bytes += chunk.length
      if (bytes > file.bytes) throw new RangeError('It is longer')
      for (let rest = chunk; rest.length > 0;) {
        if (filled === piece.length) {
          yield { piece, isLast: false }
          filled = 0
        }
        const taken = rest.subarray(0, piece.length - filled)
        piece.set(taken, filled)
        filled += taken.length
        rest = rest.subarray(taken.length)
      }
    }
    if (bytes < file.bytes) throw new RangeError('It is shorter')
  } catch (cause) {
    throw new Error(`${file.path} was changed or removed after it was looked at`, { cause })
  }
  yield { piece: piece.subarray(0, filled), isLast: true }
}
