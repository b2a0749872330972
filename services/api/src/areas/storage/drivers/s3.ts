import { IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'
import {
  CreateBucketCommand,
  DeleteObjectsCommand,
  GetObjectCommand,
  HeadBucketCommand,
  PutObjectCommand,
  S3Client,
  S3ServiceException,
} from '@aws-sdk/client-s3'
import { BadGateway } from '@platform/errors/api-error'
import type { Blobs, ChunkOwner } from '../objects/blobs.ts'

/** A blob of unknown length is buffered in memory, since S3 requires the length up front. */
const GATHERED_BYTES_MAX = 8 * 1_048_576
const PUT_BYTES_MAX = 5 * 1_024 ** 3
const DELETED_AT_ONCE = 1_000
const SPARES_MAX = 4

interface S3Options {
  bucket: string
  /** undefined: Amazon's own endpoint. */
  endpoint: string | undefined
  region: string
  /** undefined: the SDK's default credential chain. */
  credentials: { accessKeyId: string; secretAccessKey: string } | undefined
}

const failed = (cause: unknown): BadGateway => new BadGateway('The object store failed; try again later', cause)

/**
 * Frees the memory of a used chunk, if nothing else lives in its buffer. Left to the garbage collector, up to 64 MB of such
 * chunks pile up: V8 collects when its young heap fills with objects, and to it each of these is a small object, however large
 * the memory behind it.
 */
function free({ buffer, byteLength }: Buffer): void {
  if (buffer instanceof ArrayBuffer && !buffer.detached && buffer.byteLength === byteLength) buffer.transfer(0)
}

/**
 * The same for chunks read from a socket, which Node's HTTP parser has copied. Deferred to the next tick: a kept-alive
 * connection may already serve another answer, whose parser listens after us.
 */
const freeRead = (read: Buffer): void => process.nextTick(free, read)

/** Frees each chunk of a body once its connection has written it. After a failed write the system may still read the bytes. */
function freeOnceSent(body: Readable): Readable {
  const pipe = body.pipe.bind(body)
  body.pipe = (request, options) => {
    const write = request.write.bind(request)
    const writeAndFree = (chunk: Buffer) =>
      write(chunk, (error) => {
        if (!error) free(chunk)
      })
    return pipe(Object.assign(request, { write: writeAndFree }), options)
  }
  return body
}

/** Opens a driver that keeps blobs in a bucket of an S3 server, under their ids. */
export function openS3({ bucket, endpoint, region, credentials }: S3Options): Blobs {
  const client = new S3Client({
    region,
    ...(endpoint !== undefined && { endpoint, forcePathStyle: true }),
    ...(credentials && { credentials }),
    maxAttempts: 3,
    // Errors are thrown; the client would print them as well.
    logger: { trace() {}, debug() {}, info() {}, warn() {}, error() {} },
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    requestStreamBufferSize: 65_536,
    requestHandler: {
      connectionTimeout: 2_000,
      // Maximum silence between two bytes, not for the whole transfer.
      socketTimeout: 10_000,
      requestTimeout: 0,
      throwOnRequestTimeout: true,
      httpAgent: { maxSockets: 200 },
      httpsAgent: { maxSockets: 200 },
    },
  })

  let made: Promise<unknown> | undefined
  /** Creates the bucket if missing. If we lack permission to create it, we assume it exists; otherwise the first write fails. */
  const makeBucket = (): Promise<unknown> =>
    (made ??= client.send(new CreateBucketCommand({ Bucket: bucket })).catch(() => {}))

  async function put(id: string, body: Buffer | Readable, length: number, signal: AbortSignal): Promise<void> {
    await makeBucket()
    const command = new PutObjectCommand({ Bucket: bucket, Key: id, Body: body, ContentLength: length })
    await client.send(command, { abortSignal: signal })
  }

  const spares: Buffer[] = []
  /**
   * Stores bytes of unknown length. Their buffer is reused: a new one each time would pile up until the garbage collector runs.
   */
  async function putGathered(
    id: string,
    source: AsyncIterable<Buffer>,
    chunks: ChunkOwner,
    signal: AbortSignal,
  ): Promise<void> {
    const gathered = spares.pop() ?? Buffer.allocUnsafeSlow(GATHERED_BYTES_MAX)
    let length = 0
    for await (const chunk of source) {
      length += chunk.copy(gathered, length)
      if (chunks === 'owned') free(chunk)
    }
    await put(id, gathered.subarray(0, length), length, signal)
    // After a failure the client may still be sending from the buffer.
    if (spares.length < SPARES_MAX) spares.push(gathered)
  }

  return {
    lengthMax: (length) => (length === undefined ? GATHERED_BYTES_MAX : PUT_BYTES_MAX),
    async write(id, source, length, chunks = 'borrowed') {
      let broken: { error: unknown } | undefined
      const over = new AbortController()
      async function* watched(): AsyncGenerator<Buffer> {
        try {
          yield* source
        } catch (error) {
          broken = { error }
          over.abort()
          throw error
        }
      }
      try {
        if (length === undefined) await putGathered(id, watched(), chunks, over.signal)
        else {
          const body = Readable.from(watched(), { objectMode: false })
          body.on('error', () => {}) // thrown below; may be emitted after the request was abandoned
          await put(id, chunks === 'owned' ? freeOnceSent(body) : body, length, over.signal)
        }
      } catch (error) {
        throw broken ? broken.error : failed(error)
      }
      if (broken) throw broken.error
    },
    async *read(id, { start, end }, chunks) {
      let body: Readable
      try {
        const range = `bytes=${start}-${end}`
        const { Body } = await client.send(new GetObjectCommand({ Bucket: bucket, Key: id, Range: range }))
        body = Body as Readable
      } catch (error) {
        throw failed(error)
      }
      const socket = chunks === 'borrowed' && body instanceof IncomingMessage ? body.socket : undefined
      socket?.on('data', freeRead)
      let left = end - start + 1
      try {
        for await (const chunk of body as AsyncIterable<Buffer>) {
          left -= chunk.length
          yield chunk
          if (chunks === 'borrowed') free(chunk)
        }
      } finally {
        socket?.off('data', freeRead)
      }
      // S3 truncates a range to what exists, but the reader was promised the whole range.
      if (left > 0) throw failed(new Error(`A blob ended ${left} bytes early`))
    },
    async remove(ids) {
      for (let n = 0; n < ids.length; n += DELETED_AT_ONCE) {
        const Objects = ids.slice(n, n + DELETED_AT_ONCE).map((Key) => ({ Key }))
        try {
          const { Errors = [] } = await client.send(
            new DeleteObjectsCommand({ Bucket: bucket, Delete: { Objects, Quiet: true } }),
          )
          if (Errors[0]) throw new Error(`${Errors.length} blobs were not removed: ${Errors[0].Code}`)
        } catch (error) {
          // The first write creates it, and small objects are written elsewhere.
          if (error instanceof Error && error.name === 'NoSuchBucket') return
          throw failed(error)
        }
      }
    },
    async check() {
      try {
        await client.send(new HeadBucketCommand({ Bucket: bucket }))
      } catch (error) {
        const status = error instanceof S3ServiceException ? error.$metadata.httpStatusCode : undefined
        // The first write makes it.
        if (status === 404) return
        // An answer to HEAD has no body to take a message from.
        throw status === undefined ? error : new Error(`The S3 server answers ${status} to HEAD of the bucket`)
      }
    },
    close: () => client.destroy(),
  }
}
