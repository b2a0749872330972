/** Splits the bytes of one source into several pieces, each with a maximum length. */
export class BodyCutter {
  readonly #source: AsyncIterator<Buffer>
  readonly #seen: (chunk: Buffer) => void
  #left: Buffer | undefined

  /** seen: called with every chunk of the source, in order, as it arrives. */
  constructor(source: AsyncIterable<Buffer>, seen: (chunk: Buffer) => void) {
    this.#source = source[Symbol.asyncIterator]()
    this.#seen = seen
  }

  async #next(): Promise<Buffer | undefined> {
    if (this.#left) {
      const left = this.#left
      this.#left = undefined
      return left
    }
    for (;;) {
      const { value, done } = await this.#source.next()
      if (done) return undefined
      if (value.length === 0) continue
      this.#seen(value)
      return value
    }
  }

  /** True if no bytes are left. */
  async hasEnded(): Promise<boolean> {
    this.#left = await this.#next()
    return this.#left === undefined
  }

  /** Returns the next bytes at once: exceeds `bytesMax` by at most the rest of a chunk. */
  async gather(bytesMax: number): Promise<Buffer[]> {
    const chunks: Buffer[] = []
    for (let length = 0; length <= bytesMax;) {
      const chunk = await this.#next()
      if (chunk === undefined) break
      chunks.push(chunk)
      length += chunk.length
    }
    return chunks
  }

  putBack(chunks: Buffer[]): void {
    this.#left = chunks.length === 1 ? chunks[0] : Buffer.concat(chunks)
  }

  async *take(bytesMax: number, tally: (chunk: Buffer) => void): AsyncGenerator<Buffer> {
    for (let left = bytesMax; left > 0;) {
      const chunk = await this.#next()
      if (chunk === undefined) return
      const part = chunk.length <= left ? chunk : chunk.subarray(0, left)
      if (part.length < chunk.length) this.#left = chunk.subarray(left)
      left -= part.length
      tally(part)
      yield part
    }
  }

  /** Tells the source that nobody reads any further. */
  async abandon(): Promise<void> {
    await this.#source.return?.().catch(() => {})
  }
}
