import { Forbidden } from '@platform/errors/api-error'
import type { Actor } from '../../../http/actor.ts'
import type { StorageDeps } from '../deps.ts'
import type { RawExchange } from '../../../http/raw-listener.ts'
import { openUpload } from '../objects/read-object.ts'
import { concatenateUploads } from '../uploads/complete-upload.ts'
import { resumeHashes } from '../uploads/running-hashes.ts'
import { callerOf, type Upload } from '../uploads/uploads.ts'
import { tusError } from './errors.ts'
import { reachUpload } from './reach.ts'

const PARTS_MAX = 1_000

/** The partial uploads at the URLs, in order. Throws 400, 403 for another creator's, 404, 409 if one is in progress, 410. */
export async function reachParts(deps: StorageDeps, actor: Actor, urls: readonly string[]): Promise<Upload[]> {
  if (urls.length === 0 || urls.length > PARTS_MAX)
    throw tusError('PartCount', `Expected 1 to ${PARTS_MAX} partial uploads`)
  const parts = await Promise.all(urls.map((url) => reachUpload(deps, url)))
  for (const part of parts) {
    if (!part.isPartial) throw tusError('NotPartial')
    if (part.createdBy !== callerOf(actor)) throw new Forbidden()
    if (part.state !== 'completed') throw tusError('PartUnfinished')
  }
  return parts
}

/** The length of the whole MUST be the sum of its parts. */
export const lengthOf = (parts: readonly Upload[]): number => parts.reduce((sum, part) => sum + part.offset, 0)

/**
 * The digests of a concatenation that declared some: its bytes are read again, since the parts' digests do not determine them.
 */
async function digestsOf(exchange: RawExchange<StorageDeps>, whole: Upload, parts: readonly Upload[]) {
  if (!whole.checksumMd5 && !whole.checksumSha1 && !whole.checksumSha256) return undefined
  exchange.isWorking = true
  const hashes = await resumeHashes(null, whole.checksumSha1 !== null)
  for (const { id } of parts) for await (const chunk of openUpload(exchange.deps, id)) hashes.update(chunk)
  return hashes.digest()
}

/** Concatenates parts into an upload, MUST be in the order of the request. */
export async function concatenate(
  exchange: RawExchange<StorageDeps>,
  whole: Upload,
  parts: readonly Upload[],
): Promise<void> {
  await concatenateUploads(exchange.deps, whole, parts, await digestsOf(exchange, whole, parts))
}
