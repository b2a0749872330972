import type { StorageDeps } from '../deps.ts'
import type { RawExchange } from '../../../http/raw-listener.ts'
import { throttleAddress } from '../../../http/exchange.ts'
import { answer, progressOf } from './answer.ts'
import { reachUpload } from './reach.ts'

/** HEAD: the progress of an upload. */
export async function head(exchange: RawExchange<StorageDeps>): Promise<void> {
  await throttleAddress(exchange)
  const { deps, path } = exchange
  let upload = await reachUpload(deps, path)
  if (upload.leaseHolder !== null) {
    // The reported offset must not move. Taking the lease makes the writer store what it has received, and let go.
    const lease = await deps.uploadLeases.take(upload.id)
    await lease.release()
    upload = await reachUpload(deps, path)
  }
  answer(exchange, 200, {
    ...progressOf(upload), // Upload-Offset MUST be sent, even if it is 0 or the upload is complete
    ...(upload.contentLength === null
      ? { 'upload-defer-length': '1' } // MUST be sent as long as the length is not known
      : { 'upload-length': String(upload.contentLength) }), // MUST be sent once it is known
    ...(upload.uploadMetadata !== null && { 'upload-metadata': upload.uploadMetadata }), // MUST be returned as sent
    ...(upload.concatenates !== null && { 'upload-concat': upload.concatenates }), // MUST be returned as sent
  })
}
