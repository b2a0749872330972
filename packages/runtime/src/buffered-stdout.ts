import { constants, fstatSync, openSync, writeSync } from 'node:fs'

const STDOUT = 1
/** This much text is written at once; a larger write costs no less. */
const LENGTH_MIN = 32_768
/** A shorter text waits for more, at most this long. */
const WAIT_MAX_MS = 200
/** While the reader is this far behind, new text is dropped. */
const LENGTH_MAX = 16 * 1_048_576
/** The pause before retrying a reader that accepts no more. */
const PAUSE_MS = 100
/** Number of retries at process exit. */
const LAST_TRIES = 10

const isFull = (error: unknown): boolean =>
  ['EAGAIN', 'EBUSY'].includes((error as NodeJS.ErrnoException | null)?.code ?? '')

interface Writer {
  write(text: string): void
}
let writer: Writer | undefined

/**
 * Opens a descriptor of stdout that never blocks. A pipe is reopened, since everybody who inherited the descriptor shares its
 * mode. A socket cannot be reopened: Node's own stream sets the mode. Files are written as they are.
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

/** Writes as much as the reader accepts and returns the rest. Text that cannot be written is lost. */
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
 * The process's stdout for a log: text is buffered and written in order, in few synchronous, non-blocking writes. The rest is
 * written at process exit, also after an uncaught error; only SIGKILL loses some. A slow reader delays no caller, and a stalled
 * one delays process exit by a second. Text that cannot be written (EPIPE, a full disk) is lost.
 *
 * Why not pino's own destination: docs/decisions/0020-the-log-has-a-writer-of-its-own.md.
 */
export const bufferedStdout = (): Writer => (writer ??= openWriter())

function openWriter(): Writer {
  const fd = openNonBlocking()
  let waiting = ''
  /** The bytes of the last write that the reader did not accept yet. */
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
