import { promisify } from 'node:util'
import {
  brotliCompress,
  brotliCompressSync,
  type BrotliOptions,
  constants,
  createBrotliCompress,
  createGzip,
  gzip,
  gzipSync,
} from 'node:zlib'
import { Counter, Gauge } from 'prom-client'
import type { Encoding } from '../../deploy/artifacts/artifact-blobs.ts'

type Stream = ReturnType<typeof createBrotliCompress> | ReturnType<typeof createGzip>

/** All compressors together. */
const BYTES_MAX = 134_217_728
/**
 * What an open compressor takes, measured after 576 KiB of text (br 520 KiB, gzip 280 KiB), and the pieces that wait before and
 * behind it: one of the Function's in work and one waiting, 64 KiB each, and as much of its own, with one buffer more.
 */
const STREAM_BYTES: Readonly<Record<Encoding, number>> = { br: 786_432, gzip: 524_288 }
/** Beside the body and its copy; the longest window that copies use is 256 KiB. */
const COPY_BYTES = 2_097_152

const runs = new Counter({
  name: 'edge_compressions_total',
  help: 'Answers and kept copies of answers that the edge began to compress.',
  labelNames: ['encoding'],
})
const bytesTaken = new Gauge({
  name: 'edge_compressor_bytes',
  help: 'Memory set aside for the compressors that are open.',
})

/**
 * For an answer that is compressed while its visitor waits. Brotli 3 takes the time of gzip 4 and leaves about as few bytes as gzip 6; a
 * window of 64 KiB instead of 256 saves 350 KiB a stream and costs next to no bytes.
 */
const brotliOf = (hint: number | undefined): BrotliOptions => ({
  params: {
    [constants.BROTLI_PARAM_QUALITY]: 3,
    [constants.BROTLI_PARAM_LGWIN]: 16,
    ...(hint !== undefined && { [constants.BROTLI_PARAM_SIZE_HINT]: hint }),
  },
})
const GZIP = { level: 4, windowBits: 14, memLevel: 7 } as const

/** For a copy that many visitors get. */
const brotliOfCopy = (bytes: number): BrotliOptions => ({
  params: {
    [constants.BROTLI_PARAM_QUALITY]: 5,
    [constants.BROTLI_PARAM_LGWIN]: 18,
    [constants.BROTLI_PARAM_SIZE_HINT]: bytes,
  },
})
const GZIP_OF_COPY = { level: 6 } as const

/** Memory set aside for one answer. */
export interface Reservation {
  /**
   * Opens the compressor, which flushes with each write so that a reader can decode all that was written. The memory is given back
   * once it is closed.
   */
  open(): Stream
  /** Safe to repeat. */
  release(): void
}

/** A body that can be read as a whole. */
export interface WholeBody {
  length: number
  read: () => Buffer | Promise<Buffer>
}

/** Compresses answers, in memory that has a limit. */
export interface Compressors {
  /**
   * Compresses a short body on the spot: handing it to another thread and back takes three times the CPU time. The caller sees to
   * it that it is short.
   */
  compressNow(content: Buffer, encoding: Encoding): Buffer
  /**
   * Compresses a body that is kept, on another thread. Resolves with undefined if there is no memory left for that; rejects with the
   * error of `read`.
   */
  makeCopy(body: WholeBody, encoding: Encoding): Promise<Buffer | undefined>
  /** Sets memory aside for a streamed answer. Returns undefined if there is none left: the answer goes out uncompressed. */
  reserve(encoding: Encoding): Reservation | undefined
}

const openStream = (encoding: Encoding): Stream =>
  encoding === 'br'
    ? createBrotliCompress({ ...brotliOf(undefined), flush: constants.BROTLI_OPERATION_FLUSH })
    : createGzip({ ...GZIP, flush: constants.Z_SYNC_FLUSH })

/** bytesMax: memory of all compressors together. */
export function openCompressors(bytesMax = BYTES_MAX): Compressors {
  let taken = 0

  function take(bytes: number): (() => void) | undefined {
    if (taken + bytes > bytesMax) return undefined
    taken += bytes
    bytesTaken.inc(bytes)
    let isTaken = true
    return () => {
      if (!isTaken) return
      isTaken = false
      taken -= bytes
      bytesTaken.dec(bytes)
    }
  }

  return {
    compressNow(content, encoding) {
      runs.inc({ encoding })
      return encoding === 'br' ? brotliCompressSync(content, brotliOf(content.length)) : gzipSync(content, GZIP)
    },
    async makeCopy({ length, read }, encoding) {
      const release = take(length + COPY_BYTES)
      if (!release) return undefined
      try {
        const content = await read()
        runs.inc({ encoding })
        return encoding === 'br'
          ? await promisify(brotliCompress)(content, brotliOfCopy(content.length))
          : await promisify(gzip)(content, GZIP_OF_COPY)
      } finally {
        release()
      }
    },
    reserve(encoding) {
      const release = take(STREAM_BYTES[encoding])
      return (
        release && {
          open() {
            runs.inc({ encoding })
            return openStream(encoding).once('close', release)
          },
          release,
        }
      )
    },
  }
}
