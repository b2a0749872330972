const LF = 0x0a
const CR = 0x0d
const BYTE_ORDER_MARK = [0xef, 0xbb, 0xbf] as const

/** An event of a `text/event-stream`, with its original bytes. */
export interface SseEvent {
  /** The whole event, including comments and its blank line. May share memory with the pushed chunk. */
  bytes: Buffer
  /** The value of the last `event` line; undefined if absent or empty. */
  event: string | undefined
  /** The `data` lines, joined by line feeds; undefined if there are none. */
  data: string | undefined
}

/** An event exceeds the scanner's maximum size. The scanner cannot be used afterwards. */
export class EventTooLarge extends Error {
  constructor(eventBytesMax: number) {
    super(`The upstream sent an event of more than ${eventBytesMax} bytes`)
    this.name = 'EventTooLarge'
  }
}

/** Splits a byte stream into events. */
export interface SseScanner {
  /** Scans the next bytes and returns the events that they complete. Throws EventTooLarge. */
  push(chunk: Uint8Array): SseEvent[]
  /** The bytes after the last complete event. */
  rest(): Buffer
}

const NOTHING = Buffer.alloc(0)
const FIELDS = ['data', 'event'] as const

function parseEvent(bytes: Buffer, isFirst: boolean): SseEvent {
  let text = bytes.toString('utf8')
  if (isFirst && text.codePointAt(0) === 0xfeff) text = text.slice(1)
  // Nearly all events are a single data line.
  if (text.startsWith('data:') && text.indexOf('\n') === text.length - 2 && !text.includes('\r')) {
    return { bytes, event: undefined, data: text.slice(text[5] === ' ' ? 6 : 5, -2) }
  }
  const findFrom = (mark: string, from: number): number => {
    const place = text.indexOf(mark, from)
    return place === -1 ? text.length : place
  }
  let event: string | undefined
  const data: string[] = []
  let lf = findFrom('\n', 0)
  let cr = findFrom('\r', 0)
  // Only lines with a known field are extracted: an event may have millions of lines.
  for (let start = 0; start < text.length;) {
    const end = Math.min(lf, cr)
    const field = FIELDS.find((name) => text.startsWith(name, start))
    const fieldEnd = start + (field?.length ?? 0)
    if (field !== undefined && (fieldEnd === end || text[fieldEnd] === ':')) {
      const value = fieldEnd === end ? '' : text.slice(fieldEnd + (text[fieldEnd + 1] === ' ' ? 2 : 1), end)
      if (field === 'data') data.push(value)
      else event = value === '' ? undefined : value
    }
    start = end + (lf === end + 1 && cr === end ? 2 : 1)
    if (lf < start) lf = findFrom('\n', start)
    if (cr < start) cr = findFrom('\r', start)
  }
  return { bytes, event, data: data.length === 0 ? undefined : data.join('\n') }
}

/**
 * Creates a scanner that splits a `text/event-stream` into events (HTML, "Server-sent events"). Lines end in LF, CRLF or CR. The
 * bytes of all events plus `rest()` are exactly the pushed bytes. The events do not depend on how the bytes are split into
 * chunks, and each byte is searched once.
 *
 * An event whose blank line ends in CR is complete at once; an LF that follows belongs to the bytes of the next event. Only if
 * the line before ended in CRLF does the scanner wait for the byte after CR, since then an LF is expected.
 *
 * eventBytesMax: bytes of one event, including the blank line.
 */
export function createSseScanner({ eventBytesMax }: { eventBytesMax: number }): SseScanner {
  // Start of an event whose end has not arrived. It grows by doubling: an upstream that sends single bytes costs linear time.
  let pending = NOTHING
  let pendingBytes = 0
  let isFirst = true
  let isTooLarge = false
  let markBytes = 0
  let isLineEmpty = true
  let isAfterCr = false
  let didLineEndInCrlf = false
  let isWaitingForLf = false

  function fail(): never {
    isTooLarge = true
    pending = NOTHING
    pendingBytes = 0
    throw new EventTooLarge(eventBytesMax)
  }

  function keep(part: Buffer): void {
    const bytes = pendingBytes + part.length
    if (bytes > eventBytesMax) fail()
    if (bytes > pending.length) {
      const grown = Buffer.allocUnsafe(Math.max(bytes, Math.min(2 * pending.length, eventBytesMax)))
      pending.copy(grown, 0, 0, pendingBytes)
      pending = grown
    }
    part.copy(pending, pendingBytes)
    pendingBytes = bytes
  }

  function complete(part: Buffer): SseEvent {
    let bytes = part
    if (pendingBytes > 0) {
      keep(part)
      bytes = pending.subarray(0, pendingBytes)
      pending = NOTHING
      pendingBytes = 0
    } else if (part.length > eventBytesMax) fail()
    const event = parseEvent(bytes, isFirst)
    isFirst = false
    return event
  }

  /** Skips a byte order mark at the start of the stream: a line with nothing else is empty. */
  function skipMark(chunk: Buffer): number {
    let position = 0
    while (markBytes < 3 && position < chunk.length) {
      if (chunk[position] !== BYTE_ORDER_MARK[markBytes]) {
        if (markBytes > 0) isLineEmpty = false
        markBytes = 3
        break
      }
      markBytes += 1
      position += 1
    }
    return position
  }

  return {
    push(bytes) {
      if (isTooLarge) fail()
      const chunk = Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
      const events: SseEvent[] = []
      let start = 0
      let position = markBytes < 3 ? skipMark(chunk) : 0
      let cr = chunk.indexOf(CR, position)
      const end = (): void => {
        events.push(complete(chunk.subarray(start, position)))
        start = position
      }

      while (position < chunk.length) {
        if (isAfterCr) {
          isAfterCr = false
          const isLf = chunk[position] === LF
          if (isLf) {
            position += 1
            didLineEndInCrlf = true
          }
          if (isWaitingForLf) {
            isWaitingForLf = false
            end()
          }
          if (isLf) continue
        }
        if (cr !== -1 && cr < position) cr = chunk.indexOf(CR, position)
        // The search for LF stops at the next CR; otherwise a chunk of many CRs would be searched again and again.
        const lf = cr === -1 ? chunk.indexOf(LF, position) : chunk.subarray(position, cr).indexOf(LF)
        const lineEnd = lf === -1 ? cr : cr === -1 ? lf : position + lf
        if (lineEnd === -1) {
          isLineEmpty = false
          break
        }
        const isBlank = isLineEmpty && lineEnd === position
        position = lineEnd + 1
        isLineEmpty = true
        isAfterCr = lineEnd === cr
        if (isBlank) {
          if (isAfterCr && didLineEndInCrlf) isWaitingForLf = true
          else end()
        }
        didLineEndInCrlf = false
      }
      if (start < chunk.length) keep(start === 0 ? chunk : chunk.subarray(start))
      return events
    },
    rest: () => Buffer.from(pending.subarray(0, pendingBytes)),
  }
}
