import { createHash, type Hash } from 'node:crypto'
import { EMPTY_SHA256, hmacHex, sameSignature, sha256Hex } from '../signature/hash.ts'
import type { StreamSeed } from '../signature/verify.ts'
import { s3Failure } from '../wire/s3-failure.ts'

/** A chunk's line is a length, a semicolon and a signature: about 100 characters. */
const LINE_BYTES_MAX = 1_024
const TRAILERS_MAX = 16
/** Pieces smaller than this are joined by a copy. */
const PIECE_BYTES_MIN = 8_192

const LF = 10

/** Checks the chain of signatures that begins with a request's own (SigV4 "Transferring payload in multiple chunks"). */
class ChunkSigner {
  readonly #seed: StreamSeed
  #previous: string

  constructor(seed: StreamSeed) {
    this.#seed = seed
    this.#previous = seed.signature
  }

  /** Throws SignatureDoesNotMatch. digests: the lines after the previous signature. */
  check(algorithm: string, digests: readonly string[], claimed: string | undefined): void {
    const { timestamp, scope, signingKey } = this.#seed
    const toSign = [algorithm, timestamp, scope, this.#previous, ...digests].join('\n')
    if (
      claimed === undefined ||
      !/^[0-9a-f]{64}$/.test(claimed) ||
      !sameSignature(hmacHex(signingKey, toSign), claimed)
    )
      throw s3Failure('SignatureDoesNotMatch', 'The signature of a chunk does not match')
    this.#previous = claimed
  }
}

export interface ChunksOptions {
  /** If given, each chunk is signed, including the empty last one. */
  seed?: StreamSeed | undefined
  /** True if trailers follow the last chunk, and with a seed also their signature. */
  hasTrailers: boolean
  /** x-amz-decoded-content-length. */
  decodedLength: number
}

type State = 'size' | 'data' | 'after data' | 'trailers' | 'over'

/** Decodes an aws-chunked body as it arrives. */
class ChunkDecoder {
  readonly trailers = new Map<string, string>()
  readonly #options: ChunksOptions
  readonly #signer: ChunkSigner | undefined
  #state: State = 'size'
  /** The beginning of a line that has not ended yet, at most LINE_BYTES_MAX. */
  #line = ''
  #left = 0
  #decoded = 0
  #hash: Hash | undefined
  #claimed: string | undefined
  /** The trailers as they are signed. */
  #signedTrailers = ''

  constructor(options: ChunksOptions) {
    this.#options = options
    this.#signer = options.seed && new ChunkSigner(options.seed)
  }

  get isOver(): boolean {
    return this.#state === 'over'
  }

  get isComplete(): boolean {
    return this.isOver && this.#decoded === this.#options.decodedLength
  }

  /** Returns the object's bytes among these, as views of the same memory. */
  decode(input: Buffer): Buffer[] {
    const pieces: Buffer[] = []
    let offset = 0
    while (offset < input.length) {
      if (this.#state === 'over') throw s3Failure('IncompleteBody', 'Bytes came after the last chunk')
      if (this.#state === 'data') {
        const piece = input.subarray(offset, offset + this.#left)
        offset += piece.length
        this.#takeData(piece)
        pieces.push(piece)
        continue
      }
      const end = input.indexOf(LF, offset)
      const part = input.toString('latin1', offset, end < 0 ? input.length : end)
      if (this.#line.length + part.length > LINE_BYTES_MAX)
        throw s3Failure('InvalidRequest', 'A line of the chunked body is too long')
      this.#line += part
      if (end < 0) break
      offset = end + 1
      const line = this.#line.endsWith('\r') ? this.#line.slice(0, -1) : this.#line
      this.#line = ''
      this.#takeLine(line)
    }
    return pieces
  }

  #takeData(piece: Buffer): void {
    this.#left -= piece.length
    this.#hash?.update(piece)
    if (this.#left > 0) return
    this.#signer?.check(
      'AWS4-HMAC-SHA256-PAYLOAD',
      [EMPTY_SHA256, this.#hash?.digest('hex') ?? EMPTY_SHA256],
      this.#claimed,
    )
    this.#state = 'after data'
  }

  #takeLine(line: string): void {
    if (this.#state === 'size') this.#takeSize(line)
    else if (this.#state === 'after data') {
      if (line !== '') throw s3Failure('InvalidRequest', 'A chunk is longer than it says')
      this.#state = 'size'
    } else if (line === '') this.#endTrailers()
    else this.#takeTrailer(line)
  }

  #takeSize(line: string): void {
    const [size = '', extension = ''] = line.split(';', 2)
    if (!/^[0-9a-fA-F]{1,12}$/.test(size)) throw s3Failure('InvalidRequest', 'The length of a chunk is malformed')
    this.#claimed = /^chunk-signature=([0-9a-f]{64})$/.exec(extension.trim())?.[1]
    this.#left = Number.parseInt(size, 16)
    this.#decoded += this.#left
    if (this.#decoded > this.#options.decodedLength)
      throw s3Failure('IncompleteBody', 'The body is longer than x-amz-decoded-content-length says')
    if (this.#left > 0) {
      this.#hash = this.#signer && createHash('sha256')
      this.#state = 'data'
      return
    }
    this.#signer?.check('AWS4-HMAC-SHA256-PAYLOAD', [EMPTY_SHA256, EMPTY_SHA256], this.#claimed)
    this.#state = 'trailers'
  }

  #takeTrailer(line: string): void {
    const index = line.indexOf(':')
    const name = line.slice(0, Math.max(index, 0)).trim().toLowerCase()
    const value = line.slice(index + 1).trim()
    if (!this.#options.hasTrailers || name === '' || this.trailers.has(name) || this.trailers.size >= TRAILERS_MAX)
      throw s3Failure('MalformedTrailerError')
    this.trailers.set(name, value)
    if (name !== 'x-amz-trailer-signature') this.#signedTrailers += `${name}:${value}\n`
  }

  #endTrailers(): void {
    if (this.#signer && this.#options.hasTrailers) {
      const claimed = this.trailers.get('x-amz-trailer-signature')
      this.#signer.check('AWS4-HMAC-SHA256-TRAILER', [sha256Hex(this.#signedTrailers)], claimed)
    }
    this.#state = 'over'
  }
}

/** The trailers of a body; complete once the body has been read to its end. */
export type Trailers = ReadonlyMap<string, string>

/**
 * Decodes an aws-chunked body (SigV4 streaming). The signatures of all chunks, including the empty last one, and of the trailers
 * are verified as they pass, and so is the declared length. A chunk's bytes come out before its signature has been verified,
 * so the caller must not use any of them before the end of the body.
 *
 * Buffers nothing but lines. Throws SignatureDoesNotMatch, IncompleteBody, InvalidRequest, MalformedTrailerError.
 */
export function decodeChunks(
  source: AsyncIterable<Buffer>,
  options: ChunksOptions,
): { body: AsyncIterable<Buffer>; trailers: Trailers } {
  const decoder = new ChunkDecoder(options)
  async function* decoded(): AsyncGenerator<Buffer> {
    for await (const input of source) {
      const pieces = decoder.decode(input)
      // Small chunks are joined, since later stages cost by the piece; large ones are not copied.
      if (pieces.length > 1 && input.length / pieces.length < PIECE_BYTES_MIN) yield Buffer.concat(pieces)
      else yield* pieces
    }
    if (!decoder.isComplete) throw s3Failure('IncompleteBody')
  }
  return { body: decoded(), trailers: decoder.trailers }
}
