import type { RequestListener } from 'node:http'
import { Conflict, NotFound, PayloadTooLarge } from '@platform/errors/api-error'
import { quotedEtag } from '@platform/service/entity-tag'
import { and, eq, ne, sum } from 'drizzle-orm'
import type { DeployDeps } from '../deps.ts'
import { bodyOf, type RawExchange, createRawListener } from '../../../http/raw-listener.ts'
import { throttleAddress } from '../../../http/exchange.ts'
import { quotaOf } from '../../tenancy/products/quotas.ts'
import { receiveBody } from '../../storage/objects/receive-body.ts'
import { uploadBlobs } from '../../storage/objects/table.ts'
import { replacePart } from '../../storage/uploads/replace-part.ts'
import { readPartUrl } from './part-url.ts'
import { lockDeployment } from './reach.ts'
import { deployments } from './table.ts'

/** Bytes in the other parts of an upload. */
async function bytesBeside(db: DeployDeps['db'], uploadId: string, partNumber: number): Promise<number> {
  const [row] = await db
    .select({ bytes: sum(uploadBlobs.length).mapWith(Number) })
    .from(uploadBlobs)
    .where(and(eq(uploadBlobs.uploadId, uploadId), ne(uploadBlobs.part, partNumber)))
  return row?.bytes ?? 0
}

/** Throws Conflict if the upload accepts no more parts. */
function requireOpen({ status }: Pick<typeof deployments.$inferSelect, 'status'>): void {
  if (status !== 'PENDING') throw new Conflict('The upload is over: it was completed, cancelled or abandoned')
}

/**
 * PUT: stores the bytes of one part, replacing earlier ones of its number (D80). The URL alone authorizes the request. The ETag
 * of the answer is the quoted MD5.
 *
 * Throws Forbidden, NotFound, Conflict, and PayloadTooLarge if all parts together exceed the plan's archive size.
 */
async function receivePart(exchange: RawExchange<DeployDeps>): Promise<void> {
  const { deps, incoming, outgoing, url } = exchange
  await throttleAddress(exchange)
  if (incoming.method !== 'PUT') throw new NotFound('Resource')
  const { uploadId, partNumber } = readPartUrl(deps, url)
  const [deployment] = await deps.db
    .select({ id: deployments.id, status: deployments.status, organizationId: deployments.organizationId })
    .from(deployments)
    .where(eq(deployments.uploadId, uploadId))
  if (!deployment) throw new NotFound('Upload')
  requireOpen(deployment)
  const limit = await quotaOf(deps, deployment.organizationId, 'archive_bytes')
  const length = incoming.headers['content-length']
  await using body = await receiveBody(deps, bodyOf(exchange), {
    length: length === undefined ? undefined : Number(length),
    bytesMax: Math.max(0, limit - (await bytesBeside(deps.db, uploadId, partNumber))),
    chunks: 'owned',
  })
  exchange.isWorking = true
  const etag = body.md5.toString('hex')
  await deps.db.transaction(async (tx) => {
    // The lock admits one part at a time, so that concurrent parts cannot exceed the limit together.
    requireOpen(await lockDeployment(tx, deployment.id))
    if ((await bytesBeside(tx, uploadId, partNumber)) + body.length > limit) throw new PayloadTooLarge(limit)
    await replacePart(tx, deps.now(), uploadId, { number: partNumber, blobs: body.blobs, etag, checksum: null })
  })
  body.keep()
  outgoing.writeHead(200, { etag: quotedEtag(etag), 'content-length': 0 }).end()
}

/** Receives the parts of archives, below `/files/deployments/`. */
export function createPartServer(deps: DeployDeps): RequestListener {
  return createRawListener(deps, {
    name: 'uploadPart',
    exposedHeaders: 'ETag, Retry-After, X-Request-Id',
    allow: { methods: 'PUT', headers: 'Content-Type, X-Request-Id' },
    handle: receivePart,
  })
}
