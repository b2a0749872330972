import { constants, fstatSync, openSync, writeSync } from 'node:fs'

const STDOUT = 1
/** This much text is written at once; a larger write costs no less. */
const LENGTH_MIN = 32_768
/** Less text than that waits for more, at most this long. */
const WAIT_MAX_MS = 200
/** While a reader is this far behind, further text is lost. */
const LENGTH_MAX = 16 * 1_048_576
/** The pause before a reader that takes nothing more is tried again. */
const PAUSE_MS = 100
/** How often it is tried at the end of the process. */
const LAST_TRIES = 10

const isFull = (error: unknown): boolean =>
  ['EAGAIN', 'EBUSY'].includes((error as NodeJS.ErrnoException | null)?.code ?? '')

interface Writer {
  write(text: string): void
}
let writer: Writer | undefined

/**
 * A descriptor of stdout that never blocks. A pipe is opened anew, since the mode of the inherited descriptor belongs to
 * everybody who shares it. A socket cannot be: Node's own stream sets the mode. Files are written as they are.
 */
function openNonBlocking(): number {
  try {
    if (fstatSync(STDOUT).isFIFO())
      return openSync(`/proc/self/fd/${STDOUT}`, constants.O_WRONLY | constants.O_NONBLOCK)
  } catch {
    // not Linux, or the pipe of another user
  }
  void process.stdout
  return STDOUT
}

/** Writes as much as the reader takes and returns the rest. Text that cannot be written is lost. */
function writeSome(fd: number, bytes: Buffer): Buffer {
  let rest = bytes
  try {
    while (rest.length > 0) rest = rest.subarray(writeSync(fd, rest))
    return rest
  } catch (error) {
    return isFull(error) ? rest : Buffer.alloc(0)
  }
}

/**
 * The process's stdout for a log: text is gathered and written in few, synchronous, non-blocking writes, in its order. The end
 * of the process, an uncaught error included, writes the rest; only SIGKILL loses some. A reader that is behind delays no
 * caller, and one that has stopped delays the end of the process by a second. Text that cannot be written (EPIPE, a full disk)
 * is lost.
 *
 * Why not pino's own destination: docs/decisions/0020-the-log-has-a-writer-of-its-own.md.
 */
export const bufferedStdout = (): Writer => (writer ??= openWriter())

function openWriter(): Writer {
  const fd = openNonBlocking()
  let waiting = ''
  /** The bytes of the last write that the reader would not take yet. */
  let refused: Buffer = Buffer.alloc(0)
  let isPausing = false

  function send(): void {
    if (isPausing) return
    refused = writeSome(fd, refused)
    if (refused.length === 0 && waiting !== '') {
      const bytes = Buffer.from(waiting)
      waiting = ''
      refused = writeSome(fd, bytes)
    }
    if (refused.length === 0) return
    isPausing = true
    setTimeout(() => {
      isPausing = false
      send()
    }, PAUSE_MS)
  }

  setInterval(send, WAIT_MAX_MS).unref()
  process.on('exit', () => {
    isPausing = false
    for (let tries = 0; tries < LAST_TRIES; tries++) {
      send()
      if (refused.length === 0) return
      isPausing = false
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, PAUSE_MS)
    }
  })
  return {
    write(text) {
      if (waiting.length > LENGTH_MAX) return
      waiting += text
      if (waiting.length >= LENGTH_MIN) send()
    },
  }
}
