/** What an upload reads: a piece at a place that never lies before the piece read last. */
export interface Pieces {
  /** In bytes. */
  readonly size: number
  /** The bytes from `offset` up to `offset + bytes`, or to the end. */
  read(offset: number, bytes: number): Promise<Blob | Uint8Array<ArrayBuffer>>
  /** Ends the reading. */
  close(): void
}

/** Of a Blob: its slices, which the runtime reads from the disk while it sends them. */
export const piecesOf = (data: Blob): Pieces => ({
  size: data.size,
  read: (offset, bytes) => Promise.resolve(data.slice(offset, Math.min(offset + bytes, data.size))),
  close: () => {},
})

/** Of a stream, which is read once: the piece read last is kept until a later one is asked for. */
export function piecesOfStream(stream: ReadableStream<Uint8Array>, size: number): Pieces {
  const reader = stream.getReader()
  /** From `keptFrom` on, all that was read. */
  let kept = new Uint8Array(0)
  let keptFrom = 0
  return {
    size,
    async read(offset, bytes) {
      const end = Math.min(offset + bytes, size)
      const chunks = [kept.subarray(offset - keptFrom)]
      let readTo = Math.max(keptFrom + kept.length, offset)
      while (readTo < end) {
        const { done, value } = await reader.read()
        if (done) throw new Error(`The stream ended after ${readTo} of ${size} bytes`)
        chunks.push(value as Uint8Array<ArrayBuffer>)
        readTo += value.length
      }
      kept = new Uint8Array(await new Blob(chunks).arrayBuffer())
      keptFrom = offset
      return kept.subarray(0, end - offset)
    },
    close: () => void reader.cancel().catch(() => {}),
  }
}
