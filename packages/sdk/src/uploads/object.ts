import { pause } from '../pause.ts'
import { PlatformError } from '../errors.ts'
import { createUploadSession, getUploadSession, listObjects } from '../generated/operations.ts'
import type { StorageObject } from '../generated/types.ts'
import type { Platform } from '../platform.ts'
import { refuseUnknown } from '../request.ts'
import { patient, PIECE_MS } from './patience.ts'
import { type Pieces, piecesOf, piecesOfStream } from './data.ts'
import { once, repeat } from '../repetition.ts'
import { sendSigned } from './send-signed.ts'
import { sha256Of } from './sha256.ts'

/** An upload that goes on later, perhaps in another process. The URL is a secret: it lets its holder write the object. */
export interface ResumableUpload {
  sessionId: string
  url: string
}

export interface ObjectUpload {
  applicationId: string
  /** The slug or UUID. */
  environment: string
  bucket: string
  key: string
  /**
   * A Blob, a File, `await file(path)` of `@platform/sdk/node` or bytes: read twice, for the hash and to be sent. A stream is read
   * once, and needs `contentLength` and `checksumSha256`.
   */
  data: Blob | Uint8Array | ReadableStream<Uint8Array>
  contentType?: string | undefined
  contentLength?: number | undefined
  /** In hexadecimal. */
  checksumSha256?: string | undefined
  /** Goes on with an upload that was begun before; the data must be the same. */
  resume?: ResumableUpload | undefined
  /** Told once the upload can be gone on with. */
  onBegun?: ((upload: ResumableUpload) => void) | undefined
  onProgress?: ((progress: { sentBytes: number; totalBytes: number }) => void) | undefined
  signal?: AbortSignal | undefined
}

const MEMBERS =
  'applicationId environment bucket key data contentType contentLength checksumSha256 resume onBegun onProgress signal'.split(
    ' ',
  )
const PIECE_BYTES = 8 * 1_048_576
const tus = { 'tus-resumable': '1.0.0' }

/**
 * Stores an object by a resumable upload, in pieces of 8 MiB. Goes on after cuts and restarts of the platform while the session
 * lives (tus 1.0). Resolves to the object, whose hash the platform has checked.
 *
 * Throws TypeError, before any request, for a stream without its length and hash; PlatformError if the upload is refused, if the
 * bytes are not those of the hash, and after some two minutes without progress.
 */
export async function uploadObject(platform: Platform, upload: ObjectUpload): Promise<StorageObject> {
  refuseUnknown('uploadObject', upload, MEMBERS)
  const { applicationId, environment, bucket, key, contentType, resume, onBegun, onProgress, signal } = upload
  const place = { applicationId, environment, bucket }
  const { pieces, checksumSha256 } = await describe(upload)
  try {
    let { sessionId, url } = resume ?? { sessionId: '', url: '' }
    if (!resume) {
      const begun = await createUploadSession(
        platform,
        {
          ...place,
          body: { key, contentLength: pieces.size, checksumSha256, ...(contentType !== undefined && { contentType }) },
        },
        { ...patient, signal },
      )
      sessionId = begun.session.id
      url = begun.upload.url
      onBegun?.({ sessionId, url })
    }
    await sendAll(platform, url, pieces, signal, (sentBytes) => onProgress?.({ sentBytes, totalBytes: pieces.size }))
    const session = await getUploadSession(platform, { ...place, sessionId }, { ...patient, signal })
    // Keys are listed in order, so the key itself comes before all that begin with it.
    const { items } = await listObjects(platform, { ...place, prefix: key, limit: 1 }, { ...patient, signal })
    const [object] = items
    if (session.state !== 'completed' || object?.uploadSessionId !== sessionId)
      throw new PlatformError(`The upload of ${key} is ${session.state}, and the object is not there`, {
        status: 0,
        operation: 'uploadObject',
        attempts: 1,
      })
    return object
  } catch (error) {
    if (!(error instanceof PlatformError) || error.status !== 410) throw error
    const { status, operation, attempts, requestId } = error
    throw new PlatformError(`The upload of ${key} has ended: begin it anew`, { status, operation, attempts, requestId })
  } finally {
    pieces.close()
  }
}

async function describe(upload: ObjectUpload): Promise<{ pieces: Pieces; checksumSha256: string }> {
  const { data, contentLength, checksumSha256, signal } = upload
  if (data instanceof ReadableStream) {
    if (contentLength === undefined || checksumSha256 === undefined)
      throw new TypeError('A stream is read once: uploadObject needs its contentLength and checksumSha256 with it')
    return { pieces: piecesOfStream(data, contentLength), checksumSha256 }
  }
  const blob = data instanceof Blob ? data : new Blob([data as Uint8Array<ArrayBuffer>])
  return { pieces: piecesOf(blob), checksumSha256: checksumSha256 ?? (await sha256Of(blob, signal)) }
}

/** Sends what is missing, piece by piece. After a failure the platform is asked how far it has come. */
async function sendAll(
  platform: Platform,
  url: string,
  pieces: Pieces,
  signal: AbortSignal | undefined,
  onSent: (bytes: number) => void,
): Promise<void> {
  const offsetOf = (answer: Response): Promise<number> => Promise.resolve(Number(answer.headers.get('upload-offset')))
  const send = (method: string, retries: number, body?: Blob | Uint8Array<ArrayBuffer>, offset = 0): Promise<number> =>
    sendSigned(
      platform,
      {
        method,
        path: '/files/{upload}',
        url,
        headers: body
          ? { ...tus, 'content-type': 'application/offset+octet-stream', 'upload-offset': String(offset) }
          : tus,
        body,
        repetition: method === 'HEAD' ? repeat : once,
      },
      { ...patient, signal, retries, ...(body && { tryMs: PIECE_MS }) },
      offsetOf,
    )
  let sent = await send('HEAD', patient.retries)
  let isBegun = false
  for (let failures = 0; sent < pieces.size || !isBegun;) {
    const before = sent
    const piece = await pieces.read(sent, PIECE_BYTES)
    try {
      sent = await send('PATCH', 0, piece, sent)
      isBegun = true
    } catch (error) {
      // A piece that was cut may still be under way at the platform.
      const isCut = error instanceof PlatformError && (error.retryable || [409, 423].includes(error.status))
      if (!isCut || ++failures > patient.retries) throw error
      await pause(Math.random() * Math.min(500 * 2 ** failures, 8_000), signal)
      sent = await send('HEAD', patient.retries)
      isBegun ||= sent > 0
    }
    if (sent > before) failures = 0
    onSent(sent)
  }
}
