import { isUuid } from '@platform/runtime/is-uuid'
import type { ApiScope } from '@platform/auth/scopes'
import type { Sealer } from '@platform/runtime/seal'
import { readAuthClaim, readFormClaim, type SignatureClaim } from '@platform/s3-protocol/signature/claim'
import {
  checkSignedHeaders,
  checkTime,
  payloadHashOf,
  type StreamSeed,
  verifyPolicy,
  verifySignature,
} from '@platform/s3-protocol/signature/verify'
import type { RawTarget } from '@platform/s3-protocol/wire/raw-target'
import { s3Failure } from '@platform/s3-protocol/wire/s3-failure'
import { type ApplicationActor, grants } from '../../../http/actor.ts'
import type { StorageDeps } from '../deps.ts'
import type { RawExchange } from '../../../http/raw-listener.ts'
import { throttleAddress, authenticate } from '../../../http/exchange.ts'
import { keepLastUse } from '../../credentials/api-keys/last-use.ts'
import { noAccess } from '../../tenancy/products/product-access.ts'
import { FULL } from '../objects/stored-bytes.ts'
import { signedHosts } from './addressing.ts'
import { readBucketName } from './bucket-name.ts'
import {
  type Asked,
  findBelowApplication,
  findPublic,
  findSigner,
  type Named,
  type NamedBucket,
  NOTHING,
  type SigningApiKey,
} from './find-access.ts'
import type { Caller } from './s3-call.ts'
import { createSigningKeys, type SealedState, type SigningKeys } from './signing-key.ts'

/** The caller, the resources that the request names, and what is needed to verify the body. */
interface Authorized {
  caller: Caller
  named: Named
  payloadHash: string
  seed: StreamSeed | undefined
}

interface Request {
  target: RawTarget
  headers: ReadonlyMap<string, string>
  /** True if the operation needs the object. */
  isObjectAsked: boolean
  /** True if the operation writes. */
  isWrite: boolean
  /** undefined for an operation that is not implemented. */
  scope: ApiScope | undefined
  /** True for operations that need no credential on a public bucket. */
  isOpen: boolean
  /** The result of `admit`. */
  admitted: Promise<void>
}

/**
 * Counts the request against its client address before anything else, so refused requests count too (D55). Requests with a
 * bearer token are counted by `authorize`, together with their key.
 */
export const admit = async (exchange: RawExchange<StorageDeps>): Promise<void> => {
  if (!/^bearer /i.test(exchange.incoming.headers.authorization ?? '')) await throttleAddress(exchange)
}

const signingKeysOf = new WeakMap<Pick<Sealer, 'open'>, SigningKeys>()
function signingKeys(sealer: Sealer): SigningKeys {
  let keys = signingKeysOf.get(sealer)
  if (!keys) {
    keys = createSigningKeys(sealer)
    signingKeysOf.set(sealer, keys)
  }
  return keys
}

/** The bucket and key in a path, as names within the caller's application. */
function askedOf({ target, isObjectAsked, isWrite }: Request): Asked {
  return {
    bucket: target.bucket === undefined ? undefined : readBucketName(target.bucket),
    key: isObjectAsked ? target.key : undefined,
    isWrite,
  }
}

function requireScope(scopes: ReadonlySet<string>, scope: ApiScope | undefined): void {
  if (scope !== undefined && !grants(scopes, scope))
    throw s3Failure('AccessDenied', `The API key lacks the scope ${scope}`)
}

type UsableKey = SigningApiKey & { applicationId: string; state: SealedState }

/** Throws InvalidAccessKeyId for a key that cannot sign: unknown, deleted, or without a storage scope. */
function usableKey(key: SigningApiKey | undefined): UsableKey {
  if (!key?.signingState || key.signingKekId === null || key.applicationId === null)
    throw s3Failure('InvalidAccessKeyId')
  const { applicationId, signingState: ciphertext, signingKekId: kekId } = key
  return { ...key, applicationId, state: { keyId: key.id, ciphertext, kekId } }
}

/** Restricts a Function to buckets of its own environment, existing or not (D9). Throws AccessDenied. */
function requireOwnEnvironment(caller: ApplicationActor, { bucket }: Asked, named: Named): void {
  if (caller.kind === 'function' && bucket && named.environmentId !== caller.environmentId)
    throw s3Failure('AccessDenied')
}

/** The caller of a verified signature. Only a caller who has the secret learns that the key has expired (D2). */
async function callerOf(deps: StorageDeps, key: UsableKey): Promise<ApplicationActor> {
  if (key.expiresAt && key.expiresAt <= deps.now()) throw s3Failure('InvalidAccessKeyId', 'The API key has expired')
  // Most uses are kept already, and cost no turn of the queue.
  const keeping = keepLastUse(deps, key)
  if (keeping) await keeping
  const { id: keyId, applicationId, deploymentId, environmentId } = key
  const caller = { keyId, applicationId, scopes: new Set(key.scopes) }
  if (deploymentId === null || environmentId === null) return { kind: 'key', ...caller }
  return { kind: 'function', ...caller, deploymentId, environmentId }
}

async function authorizeSigned(
  exchange: RawExchange<StorageDeps>,
  request: Request,
  claim: SignatureClaim,
): Promise<Authorized> {
  const { deps } = exchange
  const { target, headers } = request
  const signed = {
    method: exchange.incoming.method ?? '',
    target,
    headers,
    hosts: signedHosts(exchange, target.addressing),
  }
  checkTime(claim, deps.now())
  checkSignedHeaders(claim, headers)
  const payloadHash = payloadHashOf(signed, claim)
  if (!isUuid(claim.keyId)) throw s3Failure('InvalidAccessKeyId')
  const lookup = askedOf(request)
  const [signer] = await Promise.all([findSigner(deps.db, claim.keyId, lookup), request.admitted])
  const key = usableKey(signer?.key)
  const seed = verifySignature(signed, claim, await signingKeys(deps.sealer)(key.state, claim))
  const caller = await callerOf(deps, key)
  exchange.actor = caller
  requireScope(caller.scopes, request.scope)
  const named = signer?.named ?? NOTHING
  requireOwnEnvironment(caller, lookup, named)
  return { caller, named, payloadHash, seed }
}

/** A key's token acts for its application as the key does, until it expires after 300 seconds (D44, A §3). */
async function authorizeBearer(exchange: RawExchange<StorageDeps>, request: Request): Promise<Authorized> {
  const actor = await authenticate(exchange)
  if (actor.kind === 'user') throw s3Failure('AccessDenied', 'Only tokens of API keys and Functions are taken here')
  requireScope(actor.scopes, request.scope)
  const lookup = askedOf(request)
  const named = await findBelowApplication(exchange.deps.db, actor.applicationId, lookup)
  requireOwnEnvironment(actor, lookup, named)
  const payloadHash = request.headers.get('x-amz-content-sha256') ?? 'UNSIGNED-PAYLOAD'
  return { caller: actor, named, payloadHash, seed: undefined }
}

/**
 * Lets anyone read objects of public buckets, which are then named by their slug. Everything else, lists included, is denied with
 * the same error.
 */
async function authorizeAnyone(
  { deps }: RawExchange<StorageDeps>,
  { target, isObjectAsked, isOpen, admitted }: Request,
): Promise<Authorized> {
  await admitted
  if (!isOpen || target.bucket === undefined) throw s3Failure('AccessDenied')
  const named = await findPublic(deps.db, target.bucket, isObjectAsked ? target.key : undefined)
  if (!named.bucket) throw s3Failure('AccessDenied')
  return { caller: { kind: 'anonymous' }, named, payloadHash: 'UNSIGNED-PAYLOAD', seed: undefined }
}

/**
 * Authenticates and authorizes a request, and finds the resources that it names in the same statement. Checked in this order:
 * the form of the claim, the limit of the address, the signature, the scope. A deleted or expired key is refused at once.
 *
 * Throws the errors of `readAuthClaim`, `checkTime`, `checkSignedHeaders` and `verifySignature`; InvalidAccessKeyId,
 * InvalidBucketName, AccessDenied; Throttled; for a bearer token InvalidToken.
 */
export async function authorize(exchange: RawExchange<StorageDeps>, request: Request): Promise<Authorized> {
  const claim = readAuthClaim(request.target, request.headers)
  switch (claim.kind) {
    case 'signature':
      return authorizeSigned(exchange, request, claim.claim)
    case 'bearer':
      return authorizeBearer(exchange, request)
    case 'anonymous':
      return authorizeAnyone(exchange, request)
  }
}

/**
 * Finds the key that signed the policy of a form, and the bucket that the form is sent to (S3 API POST object).
 * Throws AccessDenied, InvalidAccessKeyId, SignatureDoesNotMatch, NoSuchBucket.
 */
export async function authorizeForm(
  exchange: RawExchange<StorageDeps>,
  target: RawTarget,
  fields: ReadonlyMap<string, string>,
  policy: string,
): Promise<{ caller: ApplicationActor; bucket: NamedBucket }> {
  const { deps } = exchange
  const claim = readFormClaim(fields)
  if (!isUuid(claim.keyId)) throw s3Failure('InvalidAccessKeyId')
  const lookup = { bucket: readBucketName(target.bucket ?? ''), key: undefined, isWrite: true }
  const signer = await findSigner(deps.db, claim.keyId, lookup)
  const key = usableKey(signer?.key)
  verifyPolicy(policy, claim, await signingKeys(deps.sealer)(key.state, claim))
  const caller = await callerOf(deps, key)
  exchange.actor = caller
  requireScope(caller.scopes, 'network:storage:write')
  requireOwnEnvironment(caller, lookup, signer?.named ?? NOTHING)
  if (signer?.named.isReadOnly) throw s3Failure('AccessDenied', noAccess('storage'))
  if (signer?.named.isFull) throw s3Failure('QuotaExceeded', FULL)
  if (!signer?.named.bucket) throw s3Failure('NoSuchBucket')
  return { caller, bucket: signer.named.bucket }
}
