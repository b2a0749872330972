import type { StorageDeps } from '../deps.ts'
import type { RawExchange } from '../../../http/raw-listener.ts'
import type { Upload } from '../uploads/uploads.ts'

/** Answers without a body. HEAD MUST be answered with Cache-Control: no-store; the other answers have it too. */
export function answer(exchange: RawExchange<StorageDeps>, status: number, headers: Record<string, string>): void {
  exchange.outgoing.writeHead(status, { 'cache-control': 'no-store', ...headers }).end()
}

/** The progress of an upload. Upload-Expires MUST be sent while it can expire, as an HTTP date. */
export const progressOf = ({ offset, expiresAt, state }: Upload): Record<string, string> => ({
  'upload-offset': String(offset),
  ...(state !== 'completed' && { 'upload-expires': expiresAt.toUTCString() }),
})
