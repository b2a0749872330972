import type { StorageDeps } from '../deps.ts'
import type { RawExchange } from '../../../http/raw-listener.ts'
import { throttleAddress } from '../../../http/exchange.ts'
import { OBJECT_BYTES_MAX } from '../uploads/uploads.ts'
import { answer } from './answer.ts'
import { CHECKSUM_ALGORITHMS, EXTENSIONS, VERSION } from './protocol.ts'

/** OPTIONS: reports what is supported. */
export async function options(exchange: RawExchange<StorageDeps>): Promise<void> {
  await throttleAddress(exchange)
  answer(exchange, 204, {
    'tus-version': VERSION, // MUST be sent
    'tus-extension': EXTENSIONS.join(','),
    'tus-max-size': String(OBJECT_BYTES_MAX),
    'tus-checksum-algorithm': CHECKSUM_ALGORITHMS.join(','), // MUST be sent
  })
}
