import type { RequestListener } from 'node:http'
import { ApiError, BadRequest, Conflict, Forbidden, NotFound, PayloadTooLarge } from '@platform/errors/api-error'
import { eq, inArray } from 'drizzle-orm'
import { type Actor, type Deps, grants } from '../../deps.ts'
import { type DoorExchange, openDoor } from '../../http/door.ts'
import { admitAnyone, authenticate } from '../../http/exchange.ts'
import { isWithheldBelow, noAccess, requireProduct } from '../products/require-product.ts'
import type { Bucket } from '../storage/buckets.ts'
import { CONTENT_TYPE, whyNoKey } from '../storage/object-key.ts'
import { openUpload } from '../storage/read-object.ts'
import { reachBucket } from '../storage/reach.ts'
import { buckets, uploads } from '../storage/table.ts'
import { appendBody, type BodyChecksum } from '../uploads/append-body.ts'
import { resumeHashes } from '../uploads/running-hashes.ts'
import { readUploadMetadata } from './upload-metadata.ts'
import {
  callerOf,
  ChecksumMismatch,
  completeEmpty,
  completing,
  concatenateUploads,
  createUpload,
  findUploadByToken,
  OBJECT_BYTES_MAX,
  stateOf,
  terminateUpload,
  type Upload,
} from '../uploads/uploads.ts'

const VERSION = '1.0.0'
const EXTENSIONS = 'creation,creation-with-upload,creation-defer-length,checksum,expiration,termination,concatenation'
const ALGORITHMS = ['sha1', 'sha256', 'md5'] as const
const OFFSET_TYPE = 'application/offset+octet-stream'
const PARTS_MAX = 1_000

/** 412: another version of the protocol than the one spoken here. */
class UnsupportedVersion extends ApiError {
  constructor() {
    super(412, `Expected Tus-Resumable: ${VERSION}`, { headers: { 'tus-version': VERSION } })
  }
}
/** 415: a PATCH of something else. */
class UnsupportedType extends ApiError {
  constructor() {
    super(415, `Expected Content-Type: ${OFFSET_TYPE}`)
  }
}
/** 410: its time is over, or it failed. */
class Gone extends ApiError {
  constructor(message: string) {
    super(410, message)
  }
}
/** 460: the bytes are not those of the checksum (tus 1.0.0 Checksum). */
class WrongChecksum extends ApiError {
  constructor(message: string) {
    super(460, message)
  }
}
/** 422: the bytes are not what the session declared (storage.md). */
class WrongDigest extends ApiError {
  constructor(message: string) {
    super(422, message)
  }
}

const header = (exchange: DoorExchange, name: string): string | undefined => {
  const value = exchange.incoming.headers[name]
  return Array.isArray(value) ? value.join(',') : value
}

/** A number of bytes as a header says it. Throws BadRequest. */
function readLength(exchange: DoorExchange, name: string): number | undefined {
  const text = header(exchange, name)
  if (text === undefined) return undefined
  if (!/^\d{1,15}$/.test(text)) throw new BadRequest(`${name} is not a number of bytes`)
  return Number(text)
}

function readChecksum(exchange: DoorExchange): BodyChecksum | undefined {
  const text = header(exchange, 'upload-checksum')
  if (text === undefined) return undefined
  const [name = '', encoded = ''] = text.trim().split(/ +/)
  const algorithm = ALGORITHMS.find((known) => known === name)
  if (!algorithm) throw new BadRequest(`Upload-Checksum takes ${ALGORITHMS.join(', ')}`)
  return { algorithm, value: Buffer.from(encoded, 'base64') }
}

function readDigest(metadata: ReadonlyMap<string, string>, name: string, bytes: number): Buffer | null {
  const text = metadata.get(name)
  if (text === undefined) return null
  if (!/^[0-9a-f]*$/i.test(text) || text.length !== bytes * 2)
    throw new BadRequest(`${name} is not ${bytes} bytes in hex`)
  return Buffer.from(text, 'hex')
}

const urlOf = ({ publicUrl }: Pick<Deps, 'publicUrl'>, id: string, token: string): string =>
  `${publicUrl}/files/${id}.${token}`
export { urlOf as uploadUrlOf }

/** The upload that a path or URL names by id and token. Throws NotFound, Gone. */
async function reachUpload(deps: Deps, path: string): Promise<Upload> {
  const [, id, token] = /\/files\/([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.([\w-]{32})$/.exec(path) ?? []
  const upload = id === undefined || token === undefined ? undefined : await findUploadByToken(deps, id, token)
  if (!upload) throw new NotFound('Upload')
  const state = stateOf(upload, deps.now())
  if (state === 'expired') throw new Gone('The upload has expired')
  if (state === 'failed') throw new Gone(`The upload failed: ${upload.failureReason ?? 'it was given up'}`)
  return upload
}

/** Throws Forbidden where the organization lost its access to storage after the upload began (D91). */
async function requireStorage({ db }: Pick<Deps, 'db'>, { bucketId }: Upload): Promise<void> {
  if (bucketId === null) return // a part of something: its target is named at the end
  const [bucket] = await db
    .select({ isWithheld: isWithheldBelow(buckets.applicationId, 'storage') })
    .from(buckets)
    .where(eq(buckets.id, bucketId))
  if (bucket?.isWithheld) throw new Forbidden(noAccess('storage'))
}

function answer(exchange: DoorExchange, status: number, headers: Record<string, string>): void {
  exchange.outgoing.writeHead(status, { 'cache-control': 'no-store', ...headers }).end()
}

const progressOf = ({ offset, expiresAt, state }: Upload): Record<string, string> => ({
  'upload-offset': String(offset),
  ...(state !== 'completed' && { 'upload-expires': expiresAt.toUTCString() }),
})

/** Where a new upload goes, by its metadata (wire.md, storage.md /files). */
async function reachTarget(deps: Deps, actor: Actor, metadata: ReadonlyMap<string, string>): Promise<Bucket> {
  const applicationId = metadata.get('applicationId') ?? (actor.kind === 'key' ? actor.applicationId : undefined)
  const bucket = metadata.get('bucket')
  if (applicationId === undefined || bucket === undefined)
    throw new BadRequest('Upload-Metadata has to name applicationId and bucket')
  if (!/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(applicationId)) throw new NotFound('Application')
  const environment = metadata.get('environment')
  const params = {
    applicationId: applicationId.toLowerCase(),
    bucket,
    ...(environment !== undefined && { environment }),
  }
  const reached = await reachBucket({ deps, actor, params })
  await requireProduct(deps, 'storage', reached)
  return reached
}

function keyOf(metadata: ReadonlyMap<string, string>): string {
  const key = metadata.get('key') ?? metadata.get('filename') ?? metadata.get('name') ?? ''
  const why = whyNoKey(key)
  if (why !== undefined) throw new BadRequest(why)
  return key
}

function contentTypeOf(metadata: ReadonlyMap<string, string>): string | undefined {
  const type = metadata.get('contentType') ?? metadata.get('filetype') ?? metadata.get('type')
  if (type === undefined || type === '') return undefined // Uppy sends an empty one for what it does not know
  if (!CONTENT_TYPE.test(type)) throw new BadRequest('The content type of Upload-Metadata is not a media type')
  return type
}

/** The partial uploads that a final one puts together. Throws BadRequest, Forbidden for somebody else's, Conflict. */
async function reachParts(deps: Deps, actor: Actor, urls: string): Promise<Upload[]> {
  const given = urls.split(' ').filter((url) => url !== '')
  if (given.length === 0 || given.length > PARTS_MAX) throw new BadRequest(`Expected 1 to ${PARTS_MAX} partial uploads`)
  const parts = await Promise.all(given.map((url) => reachUpload(deps, url)))
  for (const part of parts) {
    if (!part.isPartial) throw new BadRequest('Only partial uploads can be put together')
    if (part.createdBy !== callerOf(actor)) throw new Forbidden()
    if (part.state !== 'completed') throw new Conflict('A partial upload is not finished')
  }
  return parts
}

/** Reads a whole that declared checksums once more, since its parts do not tell them. */
async function digestsOf(deps: Deps, exchange: DoorExchange, whole: Upload, parts: readonly Upload[]) {
  if (!whole.checksumMd5 && !whole.checksumSha1 && !whole.checksumSha256) return undefined
  exchange.isWorking = true
  const hashes = await resumeHashes(null, whole.checksumSha1 !== null)
  for (const { id } of parts) for await (const chunk of openUpload(deps, id)) hashes.update(chunk)
  return hashes.digest()
}

async function create(exchange: DoorExchange): Promise<void> {
  const { deps } = exchange
  const actor = await authenticate(exchange)
  if (!grants(actor.scopes, 'network:storage:write'))
    throw new Forbidden('The token lacks the scope network:storage:write', 'insufficient_scope')
  const uploadMetadata = header(exchange, 'upload-metadata')
  const metadata = readUploadMetadata(uploadMetadata)
  const concat = header(exchange, 'upload-concat')
  const isPartial = concat === 'partial'
  const finalOf = concat?.startsWith('final;') ? concat.slice('final;'.length) : undefined
  if (concat !== undefined && !isPartial && finalOf === undefined)
    throw new BadRequest('Upload-Concat is neither partial nor final')
  const isDeferred = header(exchange, 'upload-defer-length') === '1'
  const length = readLength(exchange, 'upload-length')
  if (finalOf === undefined && (length === undefined) !== isDeferred)
    throw new BadRequest('Expected either Upload-Length or Upload-Defer-Length: 1')
  if ((length ?? 0) > OBJECT_BYTES_MAX) throw new PayloadTooLarge(OBJECT_BYTES_MAX)
  const needsNoTarget = isPartial && !metadata.has('bucket')
  const bucket = needsNoTarget ? null : await reachTarget(deps, actor, metadata)
  const parts = finalOf === undefined ? [] : await reachParts(deps, actor, finalOf)
  const { upload, token } = await createUpload(deps.db, deps.now(), {
    kind: 'tus',
    bucket,
    key: needsNoTarget ? '' : keyOf(metadata),
    contentType: contentTypeOf(metadata),
    contentLength: finalOf === undefined ? (length ?? null) : parts.reduce((sum, part) => sum + part.offset, 0),
    md5: readDigest(metadata, 'checksumMd5', 16),
    sha1: readDigest(metadata, 'checksumSha1', 20),
    sha256: readDigest(metadata, 'checksumSha256', 32),
    isPartial,
    isNewOnly: header(exchange, 'if-none-match') === '*',
    concatenates: concat ?? null,
    uploadMetadata: uploadMetadata ?? null,
    createdBy: actor,
  })
  const location = { location: urlOf(deps, upload.id, token) }
  if (finalOf !== undefined) {
    await concatenateUploads(deps, upload, parts, await digestsOf(deps, exchange, upload, parts))
    answer(exchange, 201, location)
    return
  }
  if (upload.contentLength === 0) {
    await completing(deps, upload.id, () => deps.db.transaction((tx) => completeEmpty(tx, deps.now(), upload)))
    answer(exchange, 201, { ...location, 'upload-offset': '0' })
    return
  }
  if (header(exchange, 'content-type') !== OFFSET_TYPE) {
    answer(exchange, 201, { ...location, ...progressOf(upload) })
    return
  }
  // creation-with-upload: what came along counts, as far as it came.
  exchange.outgoing.setHeader('location', location.location)
  const appended = await appendTo(exchange, upload)
  answer(exchange, 201, progressOf(appended))
}

async function head(exchange: DoorExchange): Promise<void> {
  await admitAnyone(exchange)
  const { deps } = exchange
  let upload = await reachUpload(deps, exchange.path)
  if (upload.leaseHolder !== null) {
    // What it is told must not move afterwards: whoever writes puts away what has come, and lets go.
    const lease = await deps.uploadLeases.take(upload.id)
    await lease.release()
    upload = await reachUpload(deps, exchange.path)
  }
  answer(exchange, 200, {
    ...progressOf(upload),
    ...(upload.contentLength === null
      ? { 'upload-defer-length': '1' }
      : { 'upload-length': String(upload.contentLength) }),
    ...(upload.uploadMetadata !== null && { 'upload-metadata': upload.uploadMetadata }),
    ...(upload.concatenates !== null && { 'upload-concat': upload.concatenates }),
  })
}

/** Appends the body under a lease of its own. */
async function appendTo(exchange: DoorExchange, upload: Upload): Promise<Upload> {
  const checksum = readChecksum(exchange)
  const lease = await exchange.deps.uploadLeases.take(upload.id)
  try {
    const [current] = await exchange.deps.db
      .select()
      .from(uploads)
      .where(inArray(uploads.id, [upload.id]))
    if (!current) throw new NotFound('Upload')
    if (current.offset !== (readLength(exchange, 'upload-offset') ?? 0))
      throw new Conflict(`The upload is at byte ${current.offset}`)
    if (upload.kind === 'tus' && current.contentLength === null) current.contentLength = upload.contentLength
    return await appendBody(exchange.deps, exchange, lease, current, checksum)
  } catch (error) {
    if (!(error instanceof ChecksumMismatch)) throw error
    throw upload.kind === 'tus' ? new WrongChecksum(error.message) : new WrongDigest(error.message)
  } finally {
    await lease.release()
  }
}

async function patch(exchange: DoorExchange): Promise<void> {
  await admitAnyone(exchange)
  const upload = await reachUpload(exchange.deps, exchange.path)
  await requireStorage(exchange.deps, upload)
  if (header(exchange, 'content-type')?.split(';', 1)[0] !== OFFSET_TYPE) throw new UnsupportedType()
  if (upload.concatenates?.startsWith('final;')) throw new Forbidden('A concatenation takes no bytes of its own')
  if (readLength(exchange, 'upload-offset') === undefined) throw new BadRequest('Upload-Offset is missing')
  const length = readLength(exchange, 'upload-length')
  if (length !== undefined) {
    if (length > OBJECT_BYTES_MAX) throw new PayloadTooLarge(OBJECT_BYTES_MAX)
    if (length < upload.offset || (upload.contentLength !== null && upload.contentLength !== length))
      throw new BadRequest('Upload-Length is not the length that was declared')
    upload.contentLength = length
  }
  const appended = await appendTo(exchange, upload)
  answer(exchange, 204, progressOf(appended))
}

async function terminate(exchange: DoorExchange): Promise<void> {
  await admitAnyone(exchange)
  const upload = await reachUpload(exchange.deps, exchange.path)
  await terminateUpload(exchange.deps, upload.id)
  answer(exchange, 204, {})
}

function describe(exchange: DoorExchange): void {
  answer(exchange, 204, {
    'tus-version': VERSION,
    'tus-extension': EXTENSIONS,
    'tus-max-size': String(OBJECT_BYTES_MAX),
    'tus-checksum-algorithm': ALGORITHMS.join(','),
  })
}

const verbs: Record<string, [operation: string, handle: (exchange: DoorExchange) => Promise<void>]> = {
  HEAD: ['getUploadOffset', head],
  PATCH: ['appendToUpload', patch],
  DELETE: ['terminateUpload', terminate],
}

async function handle(exchange: DoorExchange): Promise<void> {
  const { incoming, path } = exchange
  const method = header(exchange, 'x-http-method-override') ?? incoming.method ?? ''
  const isCollection = path === '/files' || path === '/files/'
  if (method === 'OPTIONS') {
    await admitAnyone(exchange)
    exchange.operation = 'describeUploads'
    describe(exchange)
    return
  }
  const [operation, run] = isCollection
    ? method === 'POST'
      ? (['createUpload', create] as const)
      : []
    : (verbs[method] ?? [])
  if (!operation || !run) {
    await authenticate(exchange)
    throw new NotFound('Resource')
  }
  exchange.operation = operation
  if (header(exchange, 'tus-resumable') !== VERSION) {
    await admitAnyone(exchange)
    throw new UnsupportedVersion()
  }
  await run(exchange)
}

const own =
  'Location, Tus-Checksum-Algorithm, Tus-Extension, Tus-Max-Size, Tus-Resumable, Tus-Version, Upload-Concat, Upload-Defer-Length, Upload-Expires, Upload-Length, Upload-Metadata, Upload-Offset'

/** Resumable uploads: tus 1.0.0 with the extensions that it names (storage.md /files). */
export function createFilesDoor(deps: Deps): RequestListener {
  return openDoor(deps, {
    name: 'files',
    exposedHeaders: `${own}, Retry-After, WWW-Authenticate, X-Request-Id`,
    allow: {
      methods: 'POST, HEAD, PATCH, DELETE',
      headers:
        'Authorization, Content-Type, If-None-Match, Tus-Resumable, Upload-Checksum, Upload-Concat, Upload-Defer-Length, Upload-Length, Upload-Metadata, Upload-Offset, X-HTTP-Method-Override, X-Request-Id, X-Requested-With',
    },
    headers: { 'tus-resumable': VERSION },
    handle,
  })
}
