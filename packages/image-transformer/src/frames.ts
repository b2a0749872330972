import type { Readable, Writable } from 'node:stream'

/** A message between the transformer and its child: a small JSON head, and bytes. */
export interface Frame<Head> {
  head: Head
  body: Buffer
}

const LENGTHS_BYTES = 8

/** Writes a frame: the lengths of both parts, the head as JSON, the bytes. */
export function writeFrame<Head>(stream: Writable, { head, body }: Frame<Head>): void {
  const json = Buffer.from(JSON.stringify(head))
  const lengths = Buffer.alloc(LENGTHS_BYTES)
  lengths.writeUInt32BE(json.length, 0)
  lengths.writeUInt32BE(body.length, 4)
  stream.cork()
  stream.write(Buffer.concat([lengths, json]))
  stream.write(body)
  process.nextTick(() => stream.uncork())
}

/**
 * Calls back for each frame of a stream.
 *
 * bytesMax: for both parts together. `onChunk` returns false for a longer frame: nothing after it can be read.
 */
function frameReader<Head>(bytesMax: number, onFrame: (frame: Frame<Head>) => void): (chunk: Buffer) => boolean {
  let pieces: Buffer[] = []
  let length = 0
  let wanted = LENGTHS_BYTES
  const gather = (): Buffer => {
    const [first] = pieces
    const all = pieces.length === 1 && first ? first : Buffer.concat(pieces, length)
    pieces = [all]
    return all
  }
  return (chunk) => {
    pieces.push(chunk)
    length += chunk.length
    while (length >= wanted) {
      const all = gather()
      const headBytes = all.readUInt32BE(0)
      const end = LENGTHS_BYTES + headBytes + all.readUInt32BE(4)
      if (end > bytesMax) return false
      wanted = end
      if (length < end) break
      const head = JSON.parse(all.toString('utf8', LENGTHS_BYTES, LENGTHS_BYTES + headBytes)) as Head
      const body = all.subarray(LENGTHS_BYTES + headBytes, end)
      const rest = all.subarray(end)
      pieces = rest.length > 0 ? [rest] : []
      length = rest.length
      wanted = LENGTHS_BYTES
      onFrame({ head, body })
    }
    return true
  }
}

/** Reads frames from a stream until it ends. A frame over the limit destroys the stream. */
export function readFrames<Head>(stream: Readable, bytesMax: number, onFrame: (frame: Frame<Head>) => void): void {
  const read = frameReader(bytesMax, onFrame)
  stream.on('data', (chunk: Buffer) => {
    if (!read(chunk)) stream.destroy()
  })
}
