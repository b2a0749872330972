import type { StorageDeps } from '../deps.ts'
import type { Bucket } from './buckets.ts'
import type { StoredObject } from './commit-object.ts'

type SignerDeps = Pick<StorageDeps, 'accessSigner' | 'now'>
type ObjectsDeps = Pick<StorageDeps, 'objectsDomain' | 'publicUrl'>
type UrlDeps = SignerDeps & ObjectsDeps

/** The hostname that serves a bucket's objects: an origin of its own (D51). */
export const cdnHostnameOf = (
  { objectsDomain }: Pick<StorageDeps, 'objectsDomain'>,
  { slug }: Pick<Bucket, 'slug'>,
): string => `${slug}.${objectsDomain}`

/** Path below which the edge's own origin serves objects. */
export const OBJECTS_PATH = '/_objects/'

const protocolOf = ({ publicUrl }: ObjectsDeps): string => new URL(publicUrl).protocol

/**
 * The edge's own origin, where objects are read if their domain is below localhost: only browsers and curl resolve names there.
 * undefined: each bucket has an origin of its own.
 */
function sharedOriginOf(deps: ObjectsDeps): string | undefined {
  const local = /^(?:.*\.)?localhost(?<port>:\d+)?$/.exec(deps.objectsDomain)
  return local ? `${protocolOf(deps)}//localhost${local.groups?.port ?? ''}` : undefined
}

/** The origins from which browsers read objects, as one source of a content security policy. */
export const objectsSourceOf = (deps: ObjectsDeps): string =>
  sharedOriginOf(deps) ?? `${protocolOf(deps)}//*.${deps.objectsDomain}`

/**
 * The origin and path prefix at which a bucket's objects are read. On the edge's own origin it is a path, where everything is
 * sandboxed (D92).
 */
function baseUrlOf(deps: ObjectsDeps, bucket: Pick<Bucket, 'slug'>, hasDotSegments: boolean): string {
  const shared = sharedOriginOf(deps)
  // Browsers resolve dot segments however they are encoded: at a hostname that leads to another key, by path to another bucket.
  if (shared === undefined || hasDotSegments) return `${protocolOf(deps)}//${cdnHostnameOf(deps, bucket)}`
  return `${shared}${OBJECTS_PATH}${bucket.slug}`
}

/** The permanent URL of an object; it works as long as the bucket is public. */
export function publicUrlOf(deps: ObjectsDeps, bucket: Pick<Bucket, 'slug'>, key: string): string {
  const parts = key.split('/')
  const isDots = (part: string): boolean => part === '.' || part === '..'
  // A key is any text. With dots encoded, clients that do not resolve dot segments find the object.
  const path = parts.map((part) => (isDots(part) ? part.replaceAll('.', '%2E') : encodeURIComponent(part)))
  return `${baseUrlOf(deps, bucket, parts.some(isDots))}/${path.join('/')}`
}

const messageOf = (bucketId: string, objectId: string, expires: number): string =>
  JSON.stringify([bucketId, objectId, expires])

/** `{expires}.{kid}.{mac}`, with `expires` in Unix seconds: grants its holder read access to this one object until then (D40). */
function accessOf({ accessSigner }: SignerDeps, bucketId: string, objectId: string, expires: number): string {
  return `${expires}.${accessSigner.sign(messageOf(bucketId, objectId, expires))}`
}

/** Seconds until the access expires; undefined if it is malformed, expired, or for another object. */
export function secondsLeft(
  { accessSigner, now }: SignerDeps,
  { id, bucketId }: Pick<StoredObject, 'id' | 'bucketId'>,
  access: string,
): number | undefined {
  const [, expires = '', signature = ''] = /^(\d{1,12})\.(.+)$/.exec(access) ?? []
  const left = Number(expires) - now().getTime() / 1_000
  if (expires === '' || left <= 0) return undefined
  return accessSigner.verify(messageOf(bucketId, id, Number(expires)), signature) ? left : undefined
}

/** How a browser may read an object (wire.md Access): a public one by its permanent URL, a private one by a signed URL. */
export function accessTo(
  deps: UrlDeps,
  bucket: Bucket,
  object: StoredObject,
  expiresInSeconds: number,
): { accessType: 'public' | 'signed'; url: string; expiresAt: Date | null } {
  const url = publicUrlOf(deps, bucket, object.key)
  if (bucket.visibility === 'public') return { accessType: 'public', url, expiresAt: null }
  const expires = Math.floor(deps.now().getTime() / 1_000) + expiresInSeconds
  const access = accessOf(deps, bucket.id, object.id, expires)
  return { accessType: 'signed', url: `${url}?access=${access}`, expiresAt: new Date(expires * 1_000) }
}
