import { renderError } from '@platform/errors/render-error'
import { s3Failure } from '@platform/s3-protocol/wire/s3-failure'
import { unreadableRequest } from '@platform/service/unreadable-request'
import type { Opened } from '../../area.ts'
import type { Config } from '../../config.ts'
import type { Core } from '../../core.ts'
import type { StorageDeps, StoragePorts } from './deps.ts'
import { openBlobs } from './drivers/open-blobs.ts'
import { storageEndpoints } from './endpoints.ts'
import { collectGarbage } from './objects/maintenance/collect-garbage.ts'
import { mergeBlobs } from './objects/maintenance/merge-blobs.ts'
import { sumStoredBytes } from './objects/stored-bytes.ts'
import { discardTrash } from './objects/trash.ts'
import { isS3Host } from './s3/addressing.ts'
import { createS3Listener } from './s3/server.ts'
import { createTusServer } from './tus/server.ts'
import { openLeases } from './uploads/leases.ts'
import { expireUploads } from './uploads/uploads.ts'

/** Interval between sums of stored bytes: the longest that an organization can exceed its quota unnoticed. */
const SUM_MS = 30_000

const S3_METHODS = 'GET, HEAD, POST, PUT, DELETE, OPTIONS'

/** What S3's own port answers to input that is not HTTP, and to CONNECT. */
const unreadableXml = ({ status, message, requestId }: { status: number; message: string; requestId: string }) => {
  const failure = s3Failure(status === 405 ? 'MethodNotAllowed' : 'InvalidRequest', message)
  return { type: 'application/xml', body: renderError('s3', failure, { path: '', requestId }).body }
}

export async function openStorage(
  core: Core,
  config: Pick<
    Config,
    'EDGE_PORT' | 'OBJECTS_DOMAIN' | 'OBJECTS_URL' | 'S3_DOMAIN' | 'S3_REGION' | 'TRASH_RETENTION_DAYS'
  >,
): Promise<Opened<StorageDeps, StoragePorts>> {
  const blobs = await openBlobs(config.OBJECTS_URL)
  const ports: StoragePorts = {
    blobs,
    accessSigner: core.signer('object access'),
    objectsDomain: config.OBJECTS_DOMAIN ?? `objects.localhost:${config.EDGE_PORT}`,
  }
  const deps: StorageDeps = {
    ...core,
    ...ports,
    uploadLeases: openLeases(core),
    s3Domain: config.S3_DOMAIN,
    s3Region: config.S3_REGION,
  }
  const s3AtRoot = createS3Listener(deps, 'root')
  return {
    deps,
    endpoints: storageEndpoints,
    ports,
    jobs: [
      { name: 'discard old trash', run: (on) => discardTrash(on, config.TRASH_RETENTION_DAYS) },
      { name: 'expire uploads', run: expireUploads },
      { name: 'merge the pieces of scattered objects', run: mergeBlobs },
      { name: 'collect the bytes of what is gone', run: collectGarbage },
      { name: 'sum the bytes of organizations', everyMs: SUM_MS, run: sumStoredBytes },
    ],
    listeners: [
      { on: 'api', prefix: '/s3', listener: createS3Listener(deps, 'prefix') },
      { on: 'api', prefix: '/files', listener: createTusServer(deps) },
      { on: 'host', isFor: (host) => isS3Host(deps, host), listener: s3AtRoot },
      { on: 's3', listener: s3AtRoot, refusal: unreadableRequest(core.logger, S3_METHODS, unreadableXml).refusal },
    ],
    checks: { objects: { variable: 'OBJECTS_URL', check: () => blobs.check() } },
    close: async () => blobs.close(),
  }
}
