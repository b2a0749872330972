import { setImmediate } from 'node:timers/promises'
import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'
import { and, eq, isNull, sql } from 'drizzle-orm'
import type { DeployDeps } from '../deps.ts'
import { deployments } from '../deployments/table.ts'
import { activateBlobs } from '../../storage/objects/activate-blobs.ts'
import { discardBlobs, type NewBlob, receiveBlobs } from '../../storage/objects/receive-body.ts'
import { blobs } from '../../storage/objects/table.ts'
import { type Encoding, readInlineBlob } from './artifact-blobs.ts'
import { artifactEncodings, artifacts, deploymentFiles } from './table.ts'

/** Below this the headers outweigh the savings; above, compressing takes longer than a job should. */
const BYTES_MIN = 256
const BYTES_MAX = 10_485_760
/** Minimum share of bytes that a compressed representation must save to be kept. */
const SAVED_MIN = 0.05
/** Leaves the other two of zlib's four threads to requests. */
const AT_ONCE = 2
/** Deployments per round of the job. */
const LEFT_AT_ONCE = 100

const text =
  /^(?:text\/|application\/(?:javascript|json|xml|wasm|x-ndjson|ndjson|yaml|toml|graphql|manifest\+json|ld\+json|rss\+xml|atom\+xml|xhtml\+xml|vnd\.ms-fontobject|x-javascript)|image\/(?:svg\+xml|bmp|x-icon|vnd\.microsoft\.icon)|font\/(?:ttf|otf))|\+(?:json|xml)\b/i

/** True for types of content that compression makes shorter: text, and what is stored like it. */
export const isCompressibleType = (contentType: string): boolean => text.test(contentType)

/** True for content that is worth compressing: text of 256 bytes to 10 MiB. */
export const isCompressible = (contentType: string, bytes: number): boolean =>
  bytes >= BYTES_MIN && bytes <= BYTES_MAX && isCompressibleType(contentType)

type CompressDeps = Pick<DeployDeps, 'db' | 'now' | 'blobs' | 'logger'>

/** Brotli's highest quality takes a second per mebibyte, the next a tenth of that. */
const brotliQuality = (bytes: number): number => (bytes <= 262_144 ? 11 : bytes <= 1_048_576 ? 10 : 9)

const compressors: Readonly<Record<Encoding, (content: Buffer) => Promise<Buffer>>> = {
  br: (content) =>
    promisify(brotliCompress)(content, {
      params: {
        [constants.BROTLI_PARAM_QUALITY]: brotliQuality(content.length),
        [constants.BROTLI_PARAM_SIZE_HINT]: content.length,
      },
    }),
  gzip: (content) => promisify(gzip)(content, { level: 9 }),
}

interface Candidate {
  sha256: Buffer
  bytes: number
  blobId: string
  isInline: boolean
}

async function readBlob(deps: CompressDeps, { blobId, bytes, isInline }: Candidate): Promise<Buffer> {
  if (isInline) return readInlineBlob(deps, blobId)
  return Buffer.concat(await Array.fromAsync(deps.blobs.read(blobId, { start: 0, end: bytes - 1 }, 'owned')))
}

/** Compresses one artifact and stores both results, unless another process has done so or the artifact was deleted. */
async function compressOne(deps: CompressDeps, candidate: Candidate): Promise<void> {
  const content = await readBlob(deps, candidate)
  const made: { encoding: Encoding; blobId: string | null; bytes: number }[] = []
  const received: NewBlob[] = []
  for (const encoding of ['br', 'gzip'] as const) {
    const compressed = await compressors[encoding](content)
    const isWorthIt = compressed.length <= content.length * (1 - SAVED_MIN)
    let blobId: string | null = null
    if (isWorthIt) {
      const options = { length: compressed.length, bytesMax: compressed.length }
      const body = (async function* () {
        yield compressed
      })()
      const { blobs: stored } = await receiveBlobs(deps, body, options, () => {})
      const [first, second] = stored
      if (!first || second) throw new Error('A compressed file does not fit into one blob')
      received.push(first)
      blobId = first.id
    }
    made.push({ encoding, blobId, bytes: compressed.length })
  }
  const isDone = await deps.db
    .transaction(async (tx) => {
      // Another process may have compressed or deleted this artifact meanwhile; then nothing is stored.
      const [still] = await tx
        .select({ sha256: artifacts.sha256 })
        .from(artifacts)
        .where(eq(artifacts.sha256, candidate.sha256))
        .for('no key update')
      const before = await tx
        .select({ encoding: artifactEncodings.encoding })
        .from(artifactEncodings)
        .where(eq(artifactEncodings.sha256, candidate.sha256))
      if (!still || before.length > 0) return false
      await activateBlobs(tx, deps.now(), received)
      await tx.insert(artifactEncodings).values(made.map((one) => ({ sha256: candidate.sha256, ...one })))
      return true
    })
    .catch(async (error: unknown) => {
      await discardBlobs(deps, received)
      throw error
    })
  if (!isDone) await discardBlobs(deps, received)
}

/** Artifacts of a deployment that are worth compressing and have not been; each once, however many files share it. */
async function findUncompressed({ db }: CompressDeps, deploymentId: string): Promise<Candidate[]> {
  const rows = await db
    .select({
      sha256: artifacts.sha256,
      bytes: artifacts.bytes,
      contentType: deploymentFiles.contentType,
      blobId: artifacts.blobId,
      isInline: sql<boolean>`${blobs.content} is not null`,
    })
    .from(deploymentFiles)
    .innerJoin(artifacts, eq(artifacts.sha256, deploymentFiles.sha256))
    .innerJoin(blobs, eq(blobs.id, artifacts.blobId))
    .leftJoin(artifactEncodings, eq(artifactEncodings.sha256, artifacts.sha256))
    .where(and(eq(deploymentFiles.deploymentId, deploymentId), isNull(artifactEncodings.sha256)))
  const compressible = rows.filter(({ contentType, bytes }) => isCompressible(contentType, bytes))
  return [...new Map(compressible.map((row) => [row.sha256.toString('hex'), row])).values()]
}

/**
 * Compresses the text files of a deployment, two at a time, so that the edge sends fewer bytes. Logs files that cannot be read or
 * compressed and leaves them as they are. Safe to repeat, and in several processes at once: only one stores its result.
 *
 * stop: ends it between two files; the job does the rest.
 */
export async function compressArtifacts(deps: CompressDeps, deploymentId: string, stop?: AbortSignal): Promise<void> {
  const waiting = await findUncompressed(deps, deploymentId)
  const work = async () => {
    for (let next = waiting.pop(); next; next = waiting.pop()) {
      if (stop?.aborted) return
      await compressOne(deps, next).catch((error: unknown) =>
        deps.logger.warn({ err: error, deploymentId }, 'a file could not be compressed'),
      )
      await setImmediate()
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, work))
  if (stop?.aborted) return
  await deps.db
    .update(deployments)
    .set({ filesCompressedAt: deps.now() })
    .where(and(eq(deployments.id, deploymentId), eq(deployments.status, 'ACTIVE')))
}

/** Periodic job: compresses the files of deployments whose worker stopped before it could. Safe to repeat. */
export async function compressNewArtifacts(deps: CompressDeps): Promise<void> {
  const left = await deps.db
    .select({ id: deployments.id })
    .from(deployments)
    .where(and(eq(deployments.status, 'ACTIVE'), isNull(deployments.retiredAt), isNull(deployments.filesCompressedAt)))
    .limit(LEFT_AT_ONCE)
  for (const { id } of left) await compressArtifacts(deps, id)
}
