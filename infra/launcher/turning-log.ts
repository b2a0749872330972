import { closeSync, fstatSync, ftruncateSync, openSync, renameSync, writeSync } from 'node:fs'

const BYTES_MAX = 10 * 1024 * 1024
const LINE_FEED = 10

/**
 * Opens a log for what a program prints; only its owner may read it. Once it has 10 MB it becomes `file.old`, in place of the one
 * before, and a new one begins with the next line.
 *
 * A log that cannot be written stops nothing: the lines are lost, and the next one that can be written comes after one that says
 * how much was. Throws if it cannot be opened at the start.
 *
 * write: takes pieces of any size.
 */
export function openTurningLog(file: string, bytesMax = BYTES_MAX): { write(piece: Uint8Array | string): void } {
  let descriptor = openSync(file, 'a', 0o600)
  let size = fstatSync(descriptor).size
  let isLineEnded = true
  let lostBytes = 0
  /** True up to the end of a line of which something was lost. */
  let isSkipping = false

  function turn(): void {
    try {
      renameSync(file, `${file}.old`)
    } catch (error) {
      // Somebody removed it; or there is no way to keep what it holds, and then the bound counts for more.
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') ftruncateSync(descriptor)
    }
    try {
      const next = openSync(file, 'a', 0o600)
      closeSync(descriptor)
      descriptor = next
      size = fstatSync(next).size
    } catch {
      // It goes on where it is, and tries again with the next line.
    }
  }

  /** Returns the number of bytes that were written. */
  function append(bytes: Uint8Array): number {
    let written = 0
    try {
      while (written < bytes.length) written += writeSync(descriptor, bytes, written)
    } catch {
      // the disk is full, or away
    }
    size += written
    if (written > 0) isLineEnded = bytes[written - 1] === LINE_FEED
    return written
  }

  function lose(bytes: Uint8Array): void {
    lostBytes += bytes.length
    isSkipping = bytes.at(-1) !== LINE_FEED
  }

  function write(bytes: Uint8Array): void {
    const rest = bytes.subarray(append(bytes))
    if (rest.length > 0) lose(rest)
  }

  /** Returns whether the log can be written again. */
  function tellLoss(): boolean {
    const line = Buffer.from(`${isLineEnded ? '' : '\n'}${lostBytes} bytes of this log could not be written.\n`)
    const isTold = append(line) === line.length
    if (isTold) lostBytes = 0
    return isTold
  }

  return {
    write(piece) {
      let bytes: Uint8Array = typeof piece === 'string' ? Buffer.from(piece) : piece
      const lineEnd = bytes.indexOf(LINE_FEED) + 1
      if (isSkipping) {
        lose(lineEnd > 0 ? bytes.subarray(0, lineEnd) : bytes)
        if (isSkipping) return
        bytes = bytes.subarray(lineEnd)
      }
      if (bytes.length === 0) return
      if (lostBytes > 0 && !tellLoss()) return lose(bytes)
      if (size + bytes.length > bytesMax && size > 0) {
        // The line that has begun stays whole.
        const begun = isLineEnded ? 0 : bytes.indexOf(LINE_FEED) + 1
        write(bytes.subarray(0, begun))
        bytes = bytes.subarray(begun)
        // A line as long as a log is cut.
        if (isLineEnded || size > 2 * bytesMax) turn()
      }
      write(bytes)
    },
  }
}
