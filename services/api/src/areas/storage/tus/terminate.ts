import type { StorageDeps } from '../deps.ts'
import type { RawExchange } from '../../../http/raw-listener.ts'
import { throttleAddress } from '../../../http/exchange.ts'
import { terminateUpload } from '../uploads/uploads.ts'
import { answer } from './answer.ts'
import { reachUpload } from './reach.ts'

/** DELETE: removes an upload, complete or not. Later requests SHOULD get 404. */
export async function terminate(exchange: RawExchange<StorageDeps>): Promise<void> {
  await throttleAddress(exchange)
  const upload = await reachUpload(exchange.deps, exchange.path)
  await terminateUpload(exchange.deps, upload.id)
  answer(exchange, 204, {}) // MUST be 204
}
