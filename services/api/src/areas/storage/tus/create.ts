import { Forbidden } from '@platform/errors/api-error'
import type { StorageDeps } from '../deps.ts'
import { grants } from '../../../http/actor.ts'
import type { RawExchange } from '../../../http/raw-listener.ts'
import { authenticate, header } from '../../../http/exchange.ts'
import { completeEmptyUpload } from '../uploads/complete-upload.ts'
import { uploadUrlOf } from '../uploads/upload-url.ts'
import { createUpload } from '../uploads/uploads.ts'
import { answer, progressOf } from './answer.ts'
import { concatenate, lengthOf, reachParts } from './concatenate.ts'
import { readConcat, readCreationLength, readUploadOffset } from './headers.ts'
import { append } from './patch.ts'
import { OFFSET_TYPE } from './protocol.ts'
import { reachTarget } from './reach.ts'
import { contentTypeIn, digestsIn, keyIn, readUploadMetadata } from './upload-metadata.ts'

/** POST: creates an upload, with or without bytes, or concatenates partial ones. */
export async function create(exchange: RawExchange<StorageDeps>): Promise<void> {
  const { deps, incoming } = exchange
  const actor = await authenticate(exchange)
  if (!grants(actor.scopes, 'network:storage:write'))
    throw new Forbidden('The token lacks the scope network:storage:write', 'insufficient_scope')

  const uploadMetadata = header(incoming, 'upload-metadata')
  const metadata = readUploadMetadata(uploadMetadata)
  const uploadConcat = header(incoming, 'upload-concat')
  const concat = readConcat(uploadConcat)
  const length = readCreationLength(incoming, concat)
  // A part may leave its target to the concatenation.
  const hasTarget = concat?.kind !== 'partial' || metadata.has('bucket')
  const bucket = hasTarget ? await reachTarget(deps, actor, metadata) : null
  const parts = concat?.kind === 'final' ? await reachParts(deps, actor, concat.urls) : undefined

  const { upload, token } = await createUpload(deps.db, deps.now(), {
    kind: 'tus',
    bucket,
    key: hasTarget ? keyIn(metadata) : '',
    contentType: contentTypeIn(metadata),
    contentLength: parts ? lengthOf(parts) : length,
    ...digestsIn(metadata),
    isPartial: concat?.kind === 'partial',
    isNewOnly: header(incoming, 'if-none-match') === '*',
    concatenates: uploadConcat ?? null,
    uploadMetadata: uploadMetadata ?? null,
    createdBy: actor,
  })

  // MUST be 201 with Location, for each kind of creation.
  const location = uploadUrlOf(deps, upload.id, token)
  if (parts) {
    await concatenate(exchange, upload, parts)
    answer(exchange, 201, { location })
  } else if (upload.contentLength === 0) {
    await completeEmptyUpload(deps, upload)
    answer(exchange, 201, { location, 'upload-offset': '0' })
  } else if (header(incoming, 'content-type') === OFFSET_TYPE) {
    // Creation With Upload. If appending fails, the answer still has the upload's Location.
    exchange.outgoing.setHeader('location', location)
    const appended = await append(exchange, upload, { offset: readUploadOffset(incoming) ?? 0 })
    answer(exchange, 201, progressOf(appended)) // MUST report the offset, SHOULD have accepted as much as possible
  } else answer(exchange, 201, { location, ...progressOf(upload) })
}
