import type { FileHandle } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { callbackify } from 'node:util'
import { RandomAccessReader } from 'yauzl'

/**
 * Reads an archive for yauzl, whose default reader opens a stream per header. The caller owns the file and closes it once nothing
 * reads from it any more.
 */
export class ArchiveReader extends RandomAccessReader {
  readonly #file: FileHandle
  readonly #start: number

  /** start: where the archive begins in the file, in bytes. Positions count from there. */
  constructor(file: FileHandle, start = 0) {
    super()
    this.#file = file
    this.#start = start
  }

  /** Reads `length` bytes from a position. Throws if the file ends before that. */
  async readAt(position: number, length: number): Promise<Buffer> {
    const buffer = Buffer.allocUnsafe(length)
    await this.#fill(buffer, 0, length, position)
    return buffer
  }

  async #fill(buffer: Buffer, offset: number, length: number, position: number): Promise<void> {
    for (let done = 0; done < length;) {
      const { bytesRead } = await this.#file.read(buffer, offset + done, length - done, this.#start + position + done)
      if (bytesRead === 0) throw new Error('unexpected end of the file')
      done += bytesRead
    }
  }

  override read(
    buffer: Buffer,
    offset: number,
    length: number,
    position: number,
    callback: (error: Error | null) => void,
  ): void {
    callbackify(() => this.#fill(buffer, offset, length, position))(callback)
  }

  override _readStreamForRange(start: number, end: number): Readable {
    const file = this.#file
    const first = this.#start
    return Readable.from(
      (async function* () {
        for (let position = start; position < end;) {
          const { bytesRead, buffer } = await file.read(
            Buffer.allocUnsafe(Math.min(65_536, end - position)),
            0,
            undefined,
            first + position,
          )
          if (bytesRead === 0) throw new Error('unexpected end of the file')
          position += bytesRead
          yield buffer.subarray(0, bytesRead)
        }
      })(),
      { objectMode: false },
    )
  }
}
