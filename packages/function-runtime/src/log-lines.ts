import type { LogLevel } from './function-runtime.ts'

/** A line that a slot printed. requestId: of the request during which it was printed. */
export interface PrintedLine {
  level: LogLevel
  requestId: string | undefined
  message: string
  /** The message is the beginning of a longer line. */
  isCut?: true
}

const lineBytesMax = 16 * 1024
const levels: Record<string, LogLevel> = { D: 'DEBUG', I: 'INFO', W: 'WARN', E: 'ERROR' }
const lineFeed = 10
const frameStart = 0x1e
const frameEnd = 0x1f
/** The length of a frame between its two delimiters: a letter and a request id. */
const frameBytesMax = 100

/**
 * Reads the lines of one stream of a slot, which arrive in chunks of any size. A line starts with a frame that the launcher
 * wrote (`\x1e{D|I|W|E}{request id}\x1f`), or has none if a child printed it; a frame also ends the previous line. After a
 * frame with the letter `e`, lines without a frame are errors of that request. Lines are cut at 16 KB; invalid UTF-8 becomes
 * U+FFFD, NUL is removed, and empty lines are dropped.
 */
export class LogLines {
  readonly #onLine: (line: PrintedLine) => void
  readonly #unframed: { level: LogLevel; requestId: string | undefined }
  #parts: Buffer[] = []
  #bytes = 0
  #isCut = false

  constructor(levelDefault: LogLevel, onLine: (line: PrintedLine) => void) {
    this.#unframed = { level: levelDefault, requestId: undefined }
    this.#onLine = onLine
  }

  /** Returns how many lines ended in the chunk, including empty ones. */
  write(chunk: Buffer): number {
    let lines = 0
    for (let start = 0; start < chunk.length;) {
      const end = chunk.indexOf(lineFeed, start)
      if (end !== start) this.#add(chunk.subarray(start, end === -1 ? chunk.length : end))
      if (end === -1) break
      if (this.#bytes > 0) this.#finish()
      lines += 1
      start = end + 1
    }
    return lines
  }

  /** Ends the stream; an unfinished line counts as complete. */
  end(): void {
    this.#finish()
  }

  #add(piece: Buffer): void {
    // Includes room for the frame; further bytes are dropped until the line ends.
    const room = lineBytesMax + frameBytesMax - this.#bytes
    if (piece.length > room) this.#isCut = true
    const kept = piece.subarray(0, Math.max(0, room))
    if (kept.length === 0) return
    this.#parts.push(kept)
    this.#bytes += kept.length
    // Joins small pieces of an endless line, so that they do not retain the chunks they came in.
    if (this.#parts.length >= 16) this.#parts = [Buffer.concat(this.#parts)]
  }

  #finish(): void {
    const line = this.#parts.length === 1 ? this.#parts[0]! : Buffer.concat(this.#parts)
    const isCut = this.#isCut
    this.#parts = []
    this.#bytes = 0
    this.#isCut = false
    for (let start = 0; start < line.length;) {
      const next = line.indexOf(frameStart, start + 1)
      const end = next === -1 ? line.length : next
      this.#tell(line.subarray(start, end), isCut && end === line.length)
      start = end
    }
  }

  #tell(line: Buffer, isCut: boolean): void {
    const frame = readFrame(line)
    if (frame?.letter === 'e') {
      this.#unframed.level = 'ERROR'
      this.#unframed.requestId = frame.requestId
    }
    const text = frame === undefined ? line : line.subarray(frame.length)
    const isLong = isCut || text.length > lineBytesMax
    const shown = text.subarray(0, lineBytesMax).toString('utf8').replaceAll('\0', '')
    // The last character may have been cut in half.
    const message = isLong ? shown.replace(/\u{fffd}$/u, '') : shown.replace(/\r$/, '')
    if (message === '') return
    const level = (frame && levels[frame.letter]) ?? this.#unframed.level
    const requestId = frame === undefined ? this.#unframed.requestId : frame.requestId
    this.#onLine({ level, requestId, message, ...(isLong && { isCut: true }) })
  }
}

function readFrame(line: Buffer): { letter: string; requestId: string | undefined; length: number } | undefined {
  if (line[0] !== frameStart) return
  const end = line.indexOf(frameEnd)
  if (end < 2 || end > frameBytesMax) return
  const letter = String.fromCharCode(line[1]!)
  if (!(letter in levels) && letter !== 'e') return
  const id = line.toString('utf8', 2, end)
  return { letter, requestId: id === '' ? undefined : id, length: end + 1 }
}
