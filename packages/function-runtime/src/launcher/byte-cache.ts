/** Overhead of an entry besides its bytes. */
const bytesOfEntry = 300

/** An LRU cache of buffers by key. An entry without bytes records that there is no value. */
export class ByteCache {
  readonly #entries = new Map<string, { bytes: Buffer | undefined }>()
  readonly #bytesMax: number
  #bytes = 0

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax
  }

  get(key: string): { bytes: Buffer | undefined } | undefined {
    const entry = this.#entries.get(key)
    if (!entry) return undefined
    this.#entries.delete(key)
    this.#entries.set(key, entry)
    return entry
  }

  set(key: string, bytes: Buffer | undefined): void {
    this.delete(key)
    this.#entries.set(key, { bytes })
    this.#bytes += sizeOf(bytes)
    for (const oldest of this.#entries.keys()) {
      if (this.#bytes <= this.#bytesMax) break
      this.delete(oldest)
    }
  }

  delete(key: string): void {
    const entry = this.#entries.get(key)
    if (!entry) return
    this.#entries.delete(key)
    this.#bytes -= sizeOf(entry.bytes)
  }

  clear(): void {
    this.#entries.clear()
    this.#bytes = 0
  }
}

const sizeOf = (bytes: Buffer | undefined): number => (bytes?.length ?? 0) + bytesOfEntry
