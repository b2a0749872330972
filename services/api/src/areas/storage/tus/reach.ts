import { NotFound } from '@platform/errors/api-error'
import { isUuid } from '@platform/runtime/is-uuid'
import type { Actor } from '../../../http/actor.ts'
import type { StorageDeps } from '../deps.ts'
import { requireStorageWrite } from '../objects/stored-bytes.ts'
import type { Bucket } from '../objects/buckets.ts'
import { reachBucket } from '../objects/reach.ts'
import { readUploadUrl } from '../uploads/upload-url.ts'
import { findUploadByToken, stateOf, type Upload } from '../uploads/uploads.ts'
import { tusError } from './errors.ts'
import type { Metadata } from './upload-metadata.ts'

/** The upload of a path or URL; the URL itself is the credential (D12). Throws 404, and 410 once it has expired or failed. */
export async function reachUpload(deps: Pick<StorageDeps, 'db' | 'now'>, url: string): Promise<Upload> {
  const named = readUploadUrl(url)
  const upload = named && (await findUploadByToken(deps, named.id, named.token))
  if (!upload) throw new NotFound('Upload')
  const state = stateOf(upload, deps.now())
  if (state === 'expired') throw tusError('UploadExpired')
  if (state === 'failed')
    throw tusError('UploadFailed', `The upload failed: ${upload.failureReason ?? 'it was given up'}`)
  return upload
}

/** The bucket named by a new upload's metadata (storage.md /files). Throws 400, 403, 404. */
export async function reachTarget(deps: StorageDeps, actor: Actor, metadata: Metadata): Promise<Bucket> {
  const applicationId = metadata.get('applicationId') ?? (actor.kind === 'user' ? undefined : actor.applicationId)
  const bucket = metadata.get('bucket')
  if (applicationId === undefined || bucket === undefined) throw tusError('TargetMissing')
  if (!isUuid(applicationId)) throw new NotFound('Application')
  const environment = metadata.get('environment')
  const params = {
    applicationId: applicationId.toLowerCase(),
    bucket,
    ...(environment !== undefined && { environment }),
  }
  const reached = await reachBucket({ deps, actor, params })
  await requireStorageWrite(deps, reached.applicationId)
  return reached
}
