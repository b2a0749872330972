import type { RequestListener } from 'node:http'
import { NotFound } from '@platform/errors/api-error'
import type { StorageDeps } from '../deps.ts'
import { type RawExchange, createRawListener } from '../../../http/raw-listener.ts'
import { throttleAddress, authenticate, header } from '../../../http/exchange.ts'
import { create } from './create.ts'
import { tusError } from './errors.ts'
import { head } from './head.ts'
import { options } from './options.ts'
import { patch } from './patch.ts'
import { VERSION } from './protocol.ts'
import { terminate } from './terminate.ts'

interface Operation {
  /** For the log and the metrics. */
  name: string
  run(exchange: RawExchange<StorageDeps>): Promise<void>
}

const onCollection: ReadonlyMap<string, Operation> = new Map([['POST', { name: 'createUpload', run: create }]])
const onUpload: ReadonlyMap<string, Operation> = new Map([
  ['HEAD', { name: 'getUploadOffset', run: head }],
  ['PATCH', { name: 'appendToUpload', run: patch }],
  ['DELETE', { name: 'terminateUpload', run: terminate }],
])

async function handle(exchange: RawExchange<StorageDeps>): Promise<void> {
  const { incoming, path } = exchange
  // MUST override the method, if present.
  const method = header(incoming, 'x-http-method-override') ?? incoming.method ?? ''
  // MUST ignore Tus-Resumable.
  if (method === 'OPTIONS') {
    exchange.operation = 'describeUploads'
    await options(exchange)
    return
  }
  const operation = (path === '/files' || path === '/files/' ? onCollection : onUpload).get(method)
  if (!operation) {
    await authenticate(exchange)
    throw new NotFound('Resource')
  }
  exchange.operation = operation.name
  // MUST be 412, and MUST NOT be processed.
  if (header(incoming, 'tus-resumable') !== VERSION) {
    await throttleAddress(exchange)
    throw tusError('UnsupportedVersion')
  }
  await operation.run(exchange)
}

const protocolHeaders =
  'Location, Tus-Checksum-Algorithm, Tus-Extension, Tus-Max-Size, Tus-Resumable, Tus-Version, Upload-Concat, Upload-Defer-Length, Upload-Expires, Upload-Length, Upload-Metadata, Upload-Offset'

/** Serves resumable uploads below /files: tus 1.0.0 with the extensions of `protocol.ts` (storage.md /files). */
export function createTusServer(deps: StorageDeps): RequestListener {
  return createRawListener(deps, {
    name: 'files',
    exposedHeaders: `${protocolHeaders}, Retry-After, WWW-Authenticate, X-Request-Id`,
    allow: {
      methods: 'POST, HEAD, PATCH, DELETE',
      headers:
        'Authorization, Content-Type, If-None-Match, Tus-Resumable, Upload-Checksum, Upload-Concat, Upload-Defer-Length, Upload-Length, Upload-Metadata, Upload-Offset, X-HTTP-Method-Override, X-Request-Id, X-Requested-With',
    },
    headers: { 'tus-resumable': VERSION }, // MUST be in every response
    handle,
  })
}
