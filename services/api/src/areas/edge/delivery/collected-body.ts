/** Limits for all bodies being collected, per deployment and overall. */
const DEPLOYMENT_BYTES_MAX = 33_554_432
const ALL_BYTES_MAX = 268_435_456
const FIRST_BYTES = 65_536

const held = new Map<string, number>()
let heldByAll = 0

/**
 * Collects a body that arrives in pieces, in one buffer: a list of one-byte pieces would need a hundred times the memory. Its
 * creator must call `forget` in the end.
 */
export class CollectedBody {
  readonly #deploymentId: string
  readonly #bytesMax: number
  #buffer: Buffer | undefined
  #length = 0
  #held = 0
  #isForgotten = false

  constructor(deploymentId: string, bytesMax: number) {
    this.#deploymentId = deploymentId
    this.#bytesMax = bytesMax
  }

  /** Returns false, and forgets the body, if it is too long or too many are being collected. */
  add(piece: Buffer): boolean {
    if (this.#isForgotten) return false
    const length = this.#length + piece.length
    if (length > this.#bytesMax || !this.#makeRoom(length)) {
      this.forget()
      return false
    }
    // The first piece is kept without copying: most bodies are one piece.
    if (this.#length === 0) this.#buffer = piece
    else piece.copy(this.#buffer!, this.#length)
    this.#length = length
    return true
  }

  /** undefined if it was forgotten. */
  whole(): Buffer | undefined {
    if (this.#isForgotten) return undefined
    return this.#buffer?.subarray(0, this.#length) ?? Buffer.alloc(0)
  }

  /** Safe to repeat. */
  forget(): void {
    this.#isForgotten = true
    this.#buffer = undefined
    this.#hold(-this.#held)
  }

  #makeRoom(length: number): boolean {
    const { length: capacity = 0 } = this.#buffer ?? {}
    if (capacity >= length) return true
    const wanted = this.#length === 0 ? length : Math.min(this.#bytesMax, Math.max(FIRST_BYTES, 2 * length))
    if (!this.#hold(wanted - this.#held)) return false
    if (this.#length > 0) {
      const larger = Buffer.allocUnsafeSlow(wanted)
      this.#buffer!.copy(larger, 0, 0, this.#length)
      this.#buffer = larger
    }
    return true
  }

  /** Reserves more bytes. Returns false if a limit is exceeded. */
  #hold(bytes: number): boolean {
    const ofDeployment = (held.get(this.#deploymentId) ?? 0) + bytes
    if (bytes > 0 && (ofDeployment > DEPLOYMENT_BYTES_MAX || heldByAll + bytes > ALL_BYTES_MAX)) return false
    if (ofDeployment === 0) held.delete(this.#deploymentId)
    else held.set(this.#deploymentId, ofDeployment)
    heldByAll += bytes
    this.#held += bytes
    return true
  }
}
