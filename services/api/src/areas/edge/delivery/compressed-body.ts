import type { Encoding } from '../../deploy/artifacts/artifact-blobs.ts'
import type { Compressors, Reservation } from './compressors.ts'
import { flushHead } from './flush-head.ts'
import type { Visit } from './visit.ts'

/** A body of up to this size that arrives at once is compressed on the spot, which takes a millisecond at most. */
const AT_ONCE_BYTES = 262_144
/** How many turns the rest of such a body is waited for: it comes in pieces of the socket between slot and edge. */
const TURNS_MAX = 4
/** While the compressor is at work, this much may wait for it before the Function is paused. */
const WAITING_BYTES = 32_768
/** A client that reads nothing for this long, after the Function has ended, is taken to be gone. */
const SILENT_MS = 300_000

/** What of a visit takes the body. */
type Receiver = Pick<Visit, 'outgoing' | 'socket' | 'write' | 'end'>

/** The body of an answer on its way to a visitor. */
export interface AnswerBody {
  /** Returns false to pause until `onReady`, which is called once. */
  write(chunk: Buffer, onReady: () => void): boolean
  /** last: the rest of the body. */
  end(last?: Buffer): void
  /** Set where something is to be done if the answer breaks off. */
  cut?(): void
}

/**
 * Compresses the body of an answer. What arrives within one turn of the event loop is taken as one piece (four turns, if the length
 * of the body is known and short): a body that ends in it is compressed in one go; of any other each piece is flushed, so that the
 * visitor can decode what the Function has written so far.
 *
 * Memory for the second way may be short; then the answer is sent as it is. So the head is written by the body, by `writeHead`.
 */
export class CompressedBody implements AnswerBody {
  readonly #visit: Receiver
  readonly #compressors: Compressors
  readonly #encoding: Encoding
  readonly #writeHead: (isCompressed: boolean) => void
  /** Not compressed yet. */
  #pieces: Buffer[] = []
  #waitingBytes = 0
  #turn: NodeJS.Immediate | undefined
  #turnsLeft: number
  #reservation: Reservation | undefined
  #compressor: ReturnType<Reservation['open']> | undefined
  #isBusy = false
  #isPlain = false
  #isEnded = false
  /** True if nothing more can be sent. */
  #isOver = false
  #onReady: (() => void) | undefined

  /** length: bytes of the body; undefined if they are not known. */
  constructor(
    visit: Receiver,
    compressors: Compressors,
    { encoding, length }: { encoding: Encoding; length: number | undefined },
    writeHead: (isCompressed: boolean) => void,
  ) {
    this.#visit = visit
    this.#compressors = compressors
    this.#encoding = encoding
    this.#writeHead = writeHead
    this.#turnsLeft = length !== undefined && length <= AT_ONCE_BYTES ? TURNS_MAX : 1
    this.#turn = setImmediate(() => this.#endTurn())
    visit.outgoing.once('close', () => this.#close())
  }

  write(chunk: Buffer, onReady: () => void): boolean {
    if (this.#isPlain) return this.#visit.write(chunk, onReady)
    if (this.#isOver || chunk.length === 0) return true
    this.#add(chunk)
    if (this.#isBusy) {
      if (this.#waitingBytes < WAITING_BYTES) return true
      this.#onReady = onReady
      return false
    }
    if (this.#waitingBytes <= AT_ONCE_BYTES) {
      this.#turn ??= setImmediate(() => this.#endTurn())
      return true
    }
    this.#onReady = onReady
    const isRoom = this.#beginPiece()
    if (isRoom) this.#onReady = undefined
    return isRoom
  }

  end(last?: Buffer): void {
    if (this.#isPlain) this.#visit.end(last)
    if (this.#isPlain || this.#isOver) return
    if (last) this.#add(last)
    this.#isEnded = true
    if (this.#compressor) {
      // The Function no longer waits for the visitor, so nothing else would notice.
      this.#visit.socket.setTimeout(SILENT_MS)
      if (!this.#isBusy) this.#compress()
      return
    }
    this.#stopWaiting()
    const whole = this.#take()
    if (!this.#reservation) this.#writeHead(true)
    this.#visit.end(this.#compressors.compressNow(whole, this.#encoding))
    this.#close()
  }

  /** The answer broke off. If nothing of it has been sent, another can be. */
  cut(): void {
    this.#close()
  }

  #endTurn(): void {
    this.#turnsLeft -= 1
    if (this.#turnsLeft > 0) this.#turn = setImmediate(() => this.#endTurn())
    else this.#beginPiece()
  }

  /** What came within a turn, after it. Returns false if the Function is to pause. */
  #beginPiece(): boolean {
    this.#stopWaiting()
    if (!this.#reservation) {
      this.#reservation = this.#compressors.reserve(this.#encoding)
      this.#writeHead(this.#reservation !== undefined)
      if (!this.#reservation) return this.#passOn()
      if (this.#waitingBytes === 0) flushHead(this.#visit.outgoing)
    }
    if (this.#waitingBytes === 0) return true
    this.#compressor ??= this.#open(this.#reservation)
    this.#compress()
    return false
  }

  /** Sends the answer as it is from here on. */
  #passOn(): boolean {
    this.#isPlain = true
    const onReady = this.#onReady
    if (this.#waitingBytes > 0) return this.#visit.write(this.#take(), () => onReady?.())
    flushHead(this.#visit.outgoing)
    return true
  }

  #open(reservation: Reservation): ReturnType<Reservation['open']> {
    const visit = this.#visit
    const compressor = reservation.open()
    compressor.on('data', (chunk: Buffer) => {
      if (!visit.write(chunk, () => compressor.resume())) compressor.pause()
    })
    compressor.on('end', () => visit.end())
    compressor.on('error', () => visit.outgoing.destroy())
    return compressor
  }

  /** Compresses all that waits. The compressor calls back once the visitor has taken most of what came out. */
  #compress(): void {
    const compressor = this.#compressor
    if (!compressor || this.#isOver) return
    this.#isBusy = true
    if (this.#waitingBytes === 0) {
      compressor.end()
      return
    }
    const piece = this.#take()
    compressor.write(piece, () => {
      this.#isBusy = false
      if (this.#isOver) return
      if (this.#waitingBytes > 0 || this.#isEnded) this.#compress()
      const onReady = this.#onReady
      this.#onReady = undefined
      onReady?.()
    })
  }

  #add(chunk: Buffer): void {
    this.#pieces.push(chunk)
    this.#waitingBytes += chunk.length
  }

  #take(): Buffer {
    const [first = Buffer.alloc(0)] = this.#pieces
    const whole = this.#pieces.length > 1 ? Buffer.concat(this.#pieces, this.#waitingBytes) : first
    this.#pieces = []
    this.#waitingBytes = 0
    return whole
  }

  #stopWaiting(): void {
    clearImmediate(this.#turn)
    this.#turn = undefined
  }

  #close(): void {
    this.#isOver = true
    this.#stopWaiting()
    this.#take()
    if (this.#compressor) this.#compressor.destroy()
    else this.#reservation?.release()
  }
}
