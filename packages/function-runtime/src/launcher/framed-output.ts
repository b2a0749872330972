import { writeSync } from 'node:fs'
import { Writable } from 'node:stream'
import { scopes } from './request-scope.ts'

const levels = { debug: 'D', warn: 'W', error: 'E', trace: 'E', assert: 'E' } as const
let level: string | undefined

/**
 * Replaces process.stdout and process.stderr: each line goes to one pipe, synchronously, after its level and request id
 * (`\x1e{D|I|W|E}{id}\x1f`), so that order holds and a crash loses nothing. Output of children has no frames.
 */
export function frameOutput(): void {
  const open: OpenLine = { frame: '', isOpen: false }
  const streams = { stdout: new FramedStream(1, 'I', open), stderr: new FramedStream(2, 'E', open) }
  for (const [name, value] of Object.entries(streams)) {
    Object.defineProperty(process, name, { value, configurable: true, enumerable: true, writable: true })
  }
  for (const [name, mark] of Object.entries(levels)) {
    const print = console[name as keyof typeof levels] as (...args: unknown[]) => void
    const printAtLevel = {
      [name]: (...args: unknown[]) => {
        const before = level
        level = mark
        try {
          print(...args)
        } finally {
          level = before
        }
      },
    }[name]!
    console[name as keyof typeof levels] = printAtLevel
  }
  process.on('uncaughtExceptionMonitor', () => {
    // Node itself prints the error next, to the raw descriptor: a lower-case letter marks all following lines.
    if (process.listenerCount('uncaughtException') > 0) return
    writeFully(2, Buffer.from(`\x1ee${scopes.getStore()?.id ?? ''}\x1f`))
  })
}

/** The last line written without a line break, by either stream. */
interface OpenLine {
  frame: string
  isOpen: boolean
}

class FramedStream extends Writable {
  readonly fd: number
  readonly #level: string
  readonly #open: OpenLine

  constructor(fd: number, level: string, open: OpenLine) {
    super({ decodeStrings: false, highWaterMark: 1 << 20 })
    this.fd = fd
    this.#level = level
    this.#open = open
  }

  override _write(chunk: Buffer | string, encoding: BufferEncoding, callback: () => void): void {
    const frame = `\x1e${level ?? this.#level}${scopes.getStore()?.id ?? ''}\x1f`
    const text = typeof chunk === 'string' && (encoding === 'utf8' || encoding === ('utf-8' as BufferEncoding))
    // latin1 keeps every byte of binary output.
    const lines = text ? chunk : Buffer.from(chunk as string, encoding).toString('latin1')
    writeFully(1, Buffer.from(this.#framed(frame, lines), text ? 'utf8' : 'latin1'))
    callback()
  }

  /** A frame also ends an unfinished line of another writer. */
  #framed(frame: string, text: string): string {
    if (text === '') return ''
    const open = this.#open
    const start = open.isOpen && open.frame === frame ? '' : frame
    open.frame = frame
    open.isOpen = !text.endsWith('\n')
    const inner = open.isOpen ? text : text.slice(0, -1)
    const framed = start + (inner.includes('\n') ? inner.replaceAll('\n', `\n${frame}`) : inner)
    return open.isOpen ? framed : `${framed}\n`
  }

  override _destroy(_error: Error | null, callback: (error?: Error | null) => void): void {
    // Like Node's own streams, they cannot be closed.
    callback()
  }
}

const pause = new Int32Array(new SharedArrayBuffer(4))

/** Writes all bytes, and waits if a child has made the shared pipe non-blocking. */
function writeFully(fd: number, bytes: Uint8Array): void {
  for (let offset = 0; offset < bytes.length;) {
    try {
      offset += writeSync(fd, bytes, offset)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') return
      Atomics.wait(pause, 0, 0, 1)
    }
  }
}
