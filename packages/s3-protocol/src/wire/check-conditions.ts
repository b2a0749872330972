import { bareEtag } from '@platform/service/entity-tag'
import { type Conditions, evaluatePreconditions, type Validators } from '@platform/service/preconditions'
import { s3Failure } from './s3-failure.ts'

const READING = ['if-match', 'if-none-match', 'if-modified-since', 'if-unmodified-since'] as const
const COPYING = READING.map((name) => `x-amz-copy-source-${name}`)

function readConditions(headers: ReadonlyMap<string, string>, among: readonly string[]): Conditions {
  const [ifMatch, ifNoneMatch, ifModifiedSince, ifUnmodifiedSince] = among.map((name) => headers.get(name))
  return { ifMatch, ifNoneMatch, ifModifiedSince, ifUnmodifiedSince }
}

/** True if a GET or HEAD gets a 304. Throws PreconditionFailed. */
export function isNotModified(headers: ReadonlyMap<string, string>, object: Validators): boolean {
  const verdict = evaluatePreconditions(readConditions(headers, READING), object)
  if (verdict === 'failed') throw s3Failure('PreconditionFailed')
  return verdict === 'not modified'
}

/** Evaluates the conditions on the source of a copy (S3 API CopyObject). Throws PreconditionFailed. */
export function checkCopySource(headers: ReadonlyMap<string, string>, object: Validators): void {
  if (evaluatePreconditions(readConditions(headers, COPYING), object) !== 'holds') throw s3Failure('PreconditionFailed')
}

export type WriteCondition = { ifNoneMatch: true } | { ifMatch: string } | undefined

/**
 * Reads the condition of a write: `If-None-Match: *` or `If-Match`. Only the store can decide it without a race.
 * Throws NotImplemented for other forms, InvalidRequest for both at once.
 */
export function readWriteCondition(headers: ReadonlyMap<string, string>): WriteCondition {
  const ifNoneMatch = headers.get('if-none-match')
  const ifMatch = headers.get('if-match')
  if (ifNoneMatch !== undefined && ifMatch !== undefined)
    throw s3Failure('InvalidRequest', 'Only one of If-Match and If-None-Match is allowed')
  if (ifNoneMatch !== undefined) {
    if (ifNoneMatch.trim() !== '*')
      throw s3Failure('NotImplemented', 'If-None-Match of a write takes * and nothing else')
    return { ifNoneMatch: true }
  }
  return ifMatch === undefined ? undefined : { ifMatch: bareEtag(ifMatch) }
}

/**
 * Checks the condition of a write against the current object, so that a client need not send a body whose condition already fails.
 * Throws PreconditionFailed; NoSuchKey if there is no object to match.
 */
export function checkWriteCondition(condition: WriteCondition, present: Validators | undefined): void {
  if (!condition) return
  if ('ifNoneMatch' in condition) {
    if (present) throw s3Failure('PreconditionFailed')
    return
  }
  if (!present) throw s3Failure('NoSuchKey')
  if (condition.ifMatch !== '*' && condition.ifMatch !== present.etag) throw s3Failure('PreconditionFailed')
}

/** Properties that an object must have to be deleted; undefined: any. */
export interface DeleteCondition {
  /** `*`: any. */
  ifMatch: string | undefined
  size: number | undefined
  /** unitMs: 1,000 if the client sent whole seconds. */
  lastModified: { ms: number; unitMs: 1 | 1_000 } | undefined
}

const HTTP_DATE = /^[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT$/
const ISO_DATE = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(?:Z|[+-]\d\d:\d\d)$/

/** Reads a time as SDKs write it, or as lists show it, with milliseconds. */
function readLastModified(text: string): DeleteCondition['lastModified'] {
  const iso = ISO_DATE.exec(text)
  const ms = Date.parse(text)
  if ((!iso && !HTTP_DATE.test(text)) || Number.isNaN(ms))
    throw s3Failure('InvalidArgument', 'The last modified time must be an HTTP date or an ISO 8601 time')
  return { ms, unitMs: iso?.[1] === undefined ? 1_000 : 1 }
}

function readSize(text: string): number {
  if (!/^\d{1,15}$/.test(text)) throw s3Failure('InvalidArgument', 'The size must be a number of bytes')
  return Number(text)
}

/**
 * Reads the conditions of a deletion; undefined if there are none (S3 API DeleteObject, DeleteObjects).
 * Throws InvalidArgument for an unreadable condition: ignoring it would delete an object that it protects.
 */
export function readDeleteCondition(sent: {
  ifMatch: string | undefined
  size: string | undefined
  lastModified: string | undefined
}): DeleteCondition | undefined {
  const { ifMatch, size, lastModified } = sent
  if (ifMatch === undefined && size === undefined && lastModified === undefined) return undefined
  return {
    ifMatch: ifMatch === undefined ? undefined : bareEtag(ifMatch),
    size: size === undefined ? undefined : readSize(size),
    lastModified: lastModified === undefined ? undefined : readLastModified(lastModified),
  }
}

/** Checks the conditions of a deletion against an object. Throws PreconditionFailed. */
export function checkDeleteCondition(
  { ifMatch, size, lastModified }: DeleteCondition,
  { etag, contentLength, uploadedAt }: Validators & { contentLength: number },
): void {
  const isSame =
    (ifMatch === undefined || ifMatch === '*' || ifMatch === etag) &&
    (size === undefined || size === contentLength) &&
    (lastModified === undefined ||
      Math.floor(uploadedAt.getTime() / lastModified.unitMs) === Math.floor(lastModified.ms / lastModified.unitMs))
  if (!isSame) throw s3Failure('PreconditionFailed')
}
