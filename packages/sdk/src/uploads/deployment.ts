import { PlatformError } from '../errors.ts'
import {
  completeUpload,
  createDeployment,
  createPartUrl,
  getDeployment,
  startUpload,
  streamBuildLog,
} from '../generated/operations.ts'
import type { BuildLog, CreateDeploymentData, Deployment } from '../generated/types.ts'
import type { Platform } from '../platform.ts'
import { repeat } from '../repetition.ts'
import { follow, type FollowOptions } from '../streams.ts'
import { patient, PIECE_MS } from './patience.ts'
import { sendSigned } from './send-signed.ts'

/** Where a deployment stands, while it is made. */
export type DeploymentProgress =
  | { step: 'created'; deployment: Deployment }
  | { step: 'sent'; sentBytes: number }
  /** The archive is there: from now on the platform works by itself. */
  | { step: 'complete' }
  | { step: 'log'; line: BuildLog }
  | { step: 'status'; status: Deployment['status'] }

export interface ArchiveDeployment {
  /** What POST /deployments takes: `applicationId`, and perhaps `environment`, `rootDirectory` and `git`. */
  deployment: CreateDeploymentData['body']
  /** A zip, read once. */
  archive: ReadableStream<Uint8Array>
  /** False ends once the archive is uploaded, with the deployment as it is then, or as it was made if it may not be read. Default: true. */
  wait?: boolean | undefined
  /** Told how the log is followed; see `FollowOptions`. */
  onState?: FollowOptions['onState']
  onProgress?: ((progress: DeploymentProgress) => void) | undefined
  signal?: AbortSignal | undefined
}

/** The deployment ended FAILED. `message` is the reason. */
export class DeploymentFailed extends Error {
  readonly deployment: Deployment
  /** The last 20. */
  readonly lines: readonly BuildLog[]

  constructor(deployment: Deployment, lines: readonly BuildLog[]) {
    super(deployment.failureReason ?? 'The deployment failed')
    this.name = 'DeploymentFailed'
    this.deployment = deployment
    this.lines = lines
  }
}

const PART_BYTES = 10_000_000
const PARTS_AT_ONCE = 3
const LINES = 20

/**
 * Deploys an archive and follows it to its end: parts of 10 MB, three at a time, each sent again by itself. Resolves to the
 * deployment once it is ACTIVE; throws DeploymentFailed, or PlatformError.
 */
export async function deployArchive(
  platform: Platform,
  { deployment: body, archive, wait = true, onProgress, onState, signal }: ArchiveDeployment,
): Promise<Deployment> {
  const created = await createDeployment(platform, { body }, { ...patient, signal })
  onProgress?.({ step: 'created', deployment: created })
  const { id } = created
  const { uploadId } = await startUpload(platform, { id }, { ...patient, signal })
  let sentBytes = 0
  const parts = await sendParts(archive, async (partNumber, bytes) => {
    const etag = await sendPart(platform, { id, uploadId, partNumber, bytes, signal })
    sentBytes += bytes.length
    onProgress?.({ step: 'sent', sentBytes })
    return { partNumber, etag }
  })
  await completeUpload(platform, { id, body: { uploadId, parts } }, { ...patient, signal })
  onProgress?.({ step: 'complete' })
  if (wait) return followDeployment(platform, { id, onProgress, onState, signal })
  // Who may deploy may perhaps not look.
  return getDeployment(platform, { id }, { ...patient, signal }).catch((error: unknown) => {
    if (error instanceof PlatformError && error.status === 403) return created
    throw error
  })
}

/**
 * Follows a deployment to its end. Resolves to it once it is ACTIVE; throws DeploymentFailed, or PlatformError.
 */
async function followDeployment(
  platform: Platform,
  { id, onProgress, onState, signal }: { id: string } & Pick<ArchiveDeployment, 'onProgress' | 'onState' | 'signal'>,
): Promise<Deployment> {
  const lines: BuildLog[] = []
  for await (const happened of follow(streamBuildLog, platform, { id }, { signal, onState })) {
    if (happened.event === 'log') {
      lines.push(happened.data)
      if (lines.length > LINES) lines.shift()
      onProgress?.({ step: 'log', line: happened.data })
    } else if (happened.event === 'status') onProgress?.({ step: 'status', status: happened.data.status })
  }
  const deployment = await getDeployment(platform, { id }, { ...patient, signal })
  if (deployment.status === 'FAILED') throw new DeploymentFailed(deployment, lines)
  return deployment
}

/** Cuts the archive into parts and sends them, as many at a time as allowed. Stops reading at the first that fails for good. */
async function sendParts<T>(
  archive: ReadableStream<Uint8Array>,
  send: (partNumber: number, bytes: Uint8Array<ArrayBuffer>) => Promise<T>,
): Promise<T[]> {
  const sending = new Set<Promise<unknown>>()
  const sent: Promise<T>[] = []
  const give = async (bytes: Uint8Array<ArrayBuffer>): Promise<void> => {
    if (sending.size >= PARTS_AT_ONCE) await Promise.race(sending)
    const part = send(sent.length + 1, bytes)
    sent.push(part)
    sending.add(part)
    part.then(
      () => sending.delete(part),
      () => {},
    )
  }
  const reader = archive.getReader()
  let [part, filled] = [new Uint8Array(PART_BYTES), 0]
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) break
      for (let rest = value; rest.length > 0;) {
        const taken = rest.subarray(0, PART_BYTES - filled)
        part.set(taken, filled)
        filled += taken.length
        rest = rest.subarray(taken.length)
        if (filled < PART_BYTES) continue
        await give(part)
        part = new Uint8Array(PART_BYTES)
        filled = 0
      }
    }
    if (filled > 0 || sent.length === 0) await give(part.slice(0, filled))
    return await Promise.all(sent)
  } catch (error) {
    await Promise.allSettled(sent)
    throw error
  } finally {
    reader.cancel().catch(() => {})
  }
}

/** Sends a part. A URL that has ended is asked for anew. Returns the part's ETag. */
async function sendPart(
  platform: Platform,
  {
    id,
    uploadId,
    partNumber,
    bytes,
    signal,
  }: {
    id: string
    uploadId: string
    partNumber: number
    bytes: Uint8Array<ArrayBuffer>
    signal: AbortSignal | undefined
  },
): Promise<string> {
  for (let isSecond = false; ; isSecond = true) {
    const { url } = await createPartUrl(platform, { id, body: { uploadId, partNumber } }, { ...patient, signal })
    try {
      return await sendSigned(
        platform,
        {
          method: 'PUT',
          path: '/files/deployments/{id}/{part}',
          url,
          headers: { 'content-type': 'application/zip' },
          body: bytes,
          repetition: repeat,
        },
        { ...patient, signal, tryMs: PIECE_MS },
        (answer) => Promise.resolve(answer.headers.get('etag') ?? ''),
      )
    } catch (error) {
      if (isSecond || !(error instanceof PlatformError) || error.status !== 403) throw error
    }
  }
}
