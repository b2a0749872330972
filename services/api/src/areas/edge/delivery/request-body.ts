import type { IncomingMessage, ServerResponse } from 'node:http'
import { Readable } from 'node:stream'

/** How long a client may keep sending a body whose request has been answered. */
const REST_MS = 30_000
/** Bytes of a body that wait here for its reader. */
const WAITING_BYTES_MAX = 65_536
/** A client that sends this many tiny pieces costs far more than it sends, and is disconnected. */
const PIECES_MAX = 20_000
const AVERAGE_BYTES_MIN = 16
/** Shorter pieces are joined: each has an overhead of a hundred bytes. */
const PIECE_BYTES_MIN = 1_024
const JOINED_BYTES_MAX = 8_192

/**
 * The body of a request, for an HTTP client that destroys what it no longer reads. Destroying the request itself would stop
 * reading from its connection, whose next request would never be answered; instead, the rest of the body is read and dropped.
 */
export function requestBody(incoming: IncomingMessage, outgoing: ServerResponse): Readable {
  const { socket } = incoming
  const waiting: Buffer[] = []
  let waitingBytes = 0
  let joined: Buffer | undefined
  let joinedBytes = 0
  let isWanted = false
  let isPassing = false
  let isHeldBack = false
  let pieces = 0
  let bytes = 0

  const endJoined = (): void => {
    if (joined !== undefined && joinedBytes > 0) waiting.push(Buffer.from(joined.subarray(0, joinedBytes)))
    joinedBytes = 0
  }
  const pass = (): void => {
    isPassing = false
    if (body.destroyed) return
    if (isWanted) endJoined()
    while (isWanted && waiting.length > 0) {
      const piece = waiting.shift()
      waitingBytes -= piece?.length ?? 0
      isWanted = body.push(piece)
    }
    if (incoming.readableEnded && waitingBytes === 0) body.push(null)
    else if (isHeldBack && waitingBytes === 0) goOn()
  }
  const goOn = (): void => {
    isHeldBack = false
    // While the connection is being read, the request itself would buffer pieces.
    socket.resume()
    incoming.resume()
  }
  const body = new Readable({
    highWaterMark: 1,
    read() {
      isWanted = true
      pass()
    },
  })

  incoming.on('data', (piece: Buffer) => {
    pieces += 1
    bytes += piece.length
    if (pieces > PIECES_MAX && bytes < AVERAGE_BYTES_MIN * pieces) socket.destroy()
    if (body.destroyed) return
    waitingBytes += piece.length
    if (piece.length < PIECE_BYTES_MIN) {
      if (joinedBytes + piece.length > JOINED_BYTES_MAX) endJoined()
      joined ??= Buffer.allocUnsafeSlow(JOINED_BYTES_MAX)
      joinedBytes += piece.copy(joined, joinedBytes)
    } else {
      endJoined()
      waiting.push(piece)
    }
    if (isWanted && piece.length >= PIECE_BYTES_MIN) pass()
    // Everything that arrived in one read is passed on together.
    else if (isWanted && !isPassing) {
      isPassing = true
      setImmediate(pass)
    }
    if (waitingBytes >= WAITING_BYTES_MAX && !isWanted && !isHeldBack) {
      isHeldBack = true
      incoming.pause()
      socket.pause()
    }
  })
  incoming.once('end', pass)
  const onGone = (): void => void body.destroy(new Error('The client left within its body'))
  incoming.once('error', onGone)
  incoming.once('close', () => {
    if (!incoming.complete) onGone()
  })
  // Its reader may already be gone.
  body.on('error', () => {})
  body.once('close', () => {
    waiting.length = 0
    joined = undefined
    goOn()
  })
  outgoing.once('finish', () => {
    if (incoming.complete) return
    const late = setTimeout(() => socket.destroy(), REST_MS).unref()
    incoming.once('close', () => clearTimeout(late))
  })
  return body
}
