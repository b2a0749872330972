import type { RawExchange } from '../../http/raw-listener.ts'
import type { Upload } from '../uploads/uploads.ts'

/** Answers without a body. Answers to HEAD MUST have Cache-Control: no-store; the others have it too. */
export function answer(exchange: RawExchange, status: number, headers: Record<string, string>): void {
  exchange.outgoing.writeHead(status, { 'cache-control': 'no-store', ...headers }).end()
}

/** How far an upload is. Upload-Expires MUST be there as long as it can expire, as an HTTP date. */
export const progressOf = ({ offset, expiresAt, state }: Upload): Record<string, string> => ({
  'upload-offset': String(offset),
  ...(state !== 'completed' && { 'upload-expires': expiresAt.toUTCString() }),
})
