import type { Answer } from '@platform/build-output/router'
import { readRange } from '@platform/service/byte-range'
import { evaluatePreconditions, isRangeCurrent } from '@platform/service/preconditions'
import type { EdgeDeps } from '../deps.ts'
import { type ArtifactBlobs, encodings } from '../../deploy/artifacts/artifact-blobs.ts'
import { chooseEncoded } from '../../../http/accepted-encodings.ts'
import { type AssetContents, KEPT_BYTES_MAX } from './asset-contents.ts'
import type { DeployedFile, FlatHeaders, Representation } from './deployed-file.ts'
import { cleanAnswerHeaders } from './headers.ts'
import type { Visit } from './visit.ts'

/** How often to look again for compressed versions of a file. */
const COMPRESSED_YET_MS = 60_000

/** What is needed to read files. */
export interface FileReader {
  blobs: EdgeDeps['blobs']
  findArtifact: (sha256: string) => Promise<ArtifactBlobs | undefined>
  contents: AssetContents
}

/** Framing headers, which routes must not set. */
const framing = new Set(['content-length', 'content-range'])
/** Headers about the body, omitted if there is none (204, 205, 304). */
const ofBody = new Set(['content-length', 'content-type', 'content-encoding', 'accept-ranges'])

/** Statuses whose responses have no body, whatever file a route leads to (RFC 9110 §15.3). */
const bodiless = new Set([204, 205, 304])

/** Merges the headers of routes into those of a file. A route's header replaces the file's; values of Vary are combined. */
function withRouteHeaders(file: FlatHeaders, { headers, unset }: Pick<Answer, 'headers' | 'unset'>, hostname: string) {
  if (headers.length === 0 && unset.length === 0) return file
  const added = cleanAnswerHeaders(headers, hostname).filter(([name]) => !framing.has(name))
  const replaced = new Set([...unset, ...added.map(([name]) => name)])
  const merged: FlatHeaders = []
  for (let n = 0; n < file.length; n += 2) {
    const name = file[n] ?? ''
    if (replaced.has(name) && name !== 'content-length' && name !== 'vary') continue
    merged.push(name, file[n + 1] ?? '')
  }
  for (const [name, value] of added) merged.push(name, value)
  return merged
}

const only = (headers: FlatHeaders, isWanted: (name: string) => boolean): FlatHeaders =>
  headers.filter((_, n) => isWanted(headers[n & ~1] ?? ''))

async function findRepresentations({ findArtifact }: FileReader, file: DeployedFile) {
  const artifact = await findArtifact(file.sha256)
  if (!artifact) throw new Error(`File ${file.path} of deployment ${file.deploymentId} has no artifact`)
  const encoded = encodings.flatMap((encoding) => {
    const blob = artifact.encoded[encoding]
    return blob ? [file.represent(blob, encoding)] : []
  })
  const askAgainAt = file.isNegotiated && !artifact.isCompressed ? performance.now() + COMPRESSED_YET_MS : Infinity
  return (file.representations = { identity: file.represent(artifact.identity), encoded, askAgainAt })
}

/** The representations of a file; known ones are used while newer ones are looked up. */
function representationsOf(reader: FileReader, file: DeployedFile) {
  const known = file.representations
  if (!known) return findRepresentations(reader, file)
  if (performance.now() > known.askAgainAt) {
    known.askAgainAt = performance.now() + COMPRESSED_YET_MS
    // If the look-up fails, the known ones still serve.
    findRepresentations(reader, file).catch(() => {})
  }
  return known
}

/** The bytes of a representation, as one buffer if in memory, else chunk by chunk. */
async function open(
  { blobs, contents }: FileReader,
  visit: Visit,
  { blobId, length, isInline }: Representation,
  range: { start: number; end: number },
): Promise<Buffer | AsyncIterable<Buffer>> {
  const isWhole = range.start === 0 && range.end === length - 1
  const kept = length === 0 ? Buffer.alloc(0) : contents.find(blobId)
  visit.cacheStatus = kept ? 'hit' : 'miss'
  if (!kept && length > KEPT_BYTES_MAX) return blobs.read(blobId, range, 'borrowed')
  const content = kept ?? (await contents.load({ id: blobId, length, isInline }))
  return isWhole ? content : content.subarray(range.start, range.end + 1)
}

/** The whole content of a file, uncompressed. Throws BadGateway (D22). */
export async function readFile(reader: FileReader, file: DeployedFile): Promise<Buffer> {
  const { identity } = await representationsOf(reader, file)
  const { blobId, length, isInline } = identity
  if (length === 0) return Buffer.alloc(0)
  const kept = reader.contents.find(blobId)
  if (kept) return kept
  if (length <= KEPT_BYTES_MAX) return reader.contents.load({ id: blobId, length, isInline })
  return Buffer.concat(await Array.fromAsync(reader.blobs.read(blobId, { start: 0, end: length - 1 }, 'owned')))
}

/**
 * Answers with a file of a deployment: in the encoding that the client prefers, or a range of it, or without it if the client's
 * copy is current (RFC 9110). Conditions and ranges apply only to an answer that would be 200.
 *
 * In the request log `hit` means that the bytes were in this edge's memory, `miss` that it read them from the row or the store,
 * `revalidated` that the client had them. Rejects with BadGateway (D22), and if the client leaves.
 */
export async function deliverFile(
  reader: FileReader,
  visit: Visit,
  file: DeployedFile,
  answer: Pick<Answer, 'headers' | 'unset'> & { status: number },
): Promise<void> {
  const { headers: requestHeaders, method } = visit.incoming
  visit.servedBy = file.servedBy
  const known = representationsOf(reader, file)
  const { identity, encoded } = known instanceof Promise ? await known : known
  const isPlain = answer.status === 200
  const hasRange = isPlain && requestHeaders.range !== undefined && method === 'GET'
  // A route that sets or removes Content-Encoding describes the file's own bytes, so no encoding may be chosen.
  const isEncodedByRoute =
    answer.unset.includes('content-encoding') || answer.headers.some(([name]) => name === 'content-encoding')
  const chosen =
    encoded.length === 0 || hasRange || isEncodedByRoute
      ? identity
      : (chooseEncoded(requestHeaders['accept-encoding'], encoded) ?? identity)
  const headers = withRouteHeaders(chosen.headers, answer, visit.hostname)
  if (bodiless.has(answer.status)) {
    const kept = only(headers, (name) => !ofBody.has(name))
    visit.send(answer.status, answer.status === 205 ? [...kept, 'content-length', '0'] : kept)
    return
  }

  if (
    isPlain &&
    (requestHeaders['if-none-match'] !== undefined ||
      requestHeaders['if-match'] !== undefined ||
      requestHeaders['if-modified-since'] !== undefined ||
      requestHeaders['if-unmodified-since'] !== undefined)
  ) {
    const conditions = {
      ifMatch: requestHeaders['if-match'],
      ifNoneMatch: requestHeaders['if-none-match'],
      ifModifiedSince: requestHeaders['if-modified-since'],
      ifUnmodifiedSince: requestHeaders['if-unmodified-since'],
    }
    const verdict = evaluatePreconditions(conditions, chosen.validators)
    if (verdict === 'not modified') {
      visit.cacheStatus = 'revalidated'
      visit.send(
        304,
        only(headers, (name) => !ofBody.has(name)),
      )
      return
    }
    if (verdict === 'failed') {
      visit.send(412, ['content-length', '0', 'cache-control', 'no-store'])
      return
    }
  }

  const whole = { start: 0, end: chosen.length - 1 }
  const part =
    hasRange && isRangeCurrent(requestHeaders['if-range'] as string | undefined, chosen.validators)
      ? readRange(requestHeaders.range, chosen.length)
      : undefined
  if (part === 'unsatisfiable') {
    visit.send(416, ['content-range', `bytes */${chosen.length}`, 'content-length', '0', 'cache-control', 'no-store'])
    return
  }
  if (method === 'HEAD') {
    visit.cacheStatus = reader.contents.find(chosen.blobId) ? 'hit' : 'miss'
    visit.send(answer.status, headers)
    return
  }
  visit.dropBody()
  if (!part) {
    await visit.stream(answer.status, headers, await open(reader, visit, chosen, whole))
    return
  }
  const partHeaders = only(headers, (name) => name !== 'content-length')
  partHeaders.push('content-length', String(part.end - part.start + 1))
  partHeaders.push('content-range', `bytes ${part.start}-${part.end}/${chosen.length}`)
  await visit.stream(206, partHeaders, await open(reader, visit, chosen, part))
}
