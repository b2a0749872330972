import type { StoredObject } from '../storage/commit-object.ts'
import { bareEtag, type Conditions, judge, type Subject } from '../storage/conditions.ts'
import { s3Failure } from './s3-failure.ts'

const READING = ['if-match', 'if-none-match', 'if-modified-since', 'if-unmodified-since'] as const
const COPYING = READING.map((name) => `x-amz-copy-source-${name}`)

function readConditions(headers: ReadonlyMap<string, string>, among: readonly string[]): Conditions {
  const [ifMatch, ifNoneMatch, ifModifiedSince, ifUnmodifiedSince] = among.map((name) => headers.get(name))
  return { ifMatch, ifNoneMatch, ifModifiedSince, ifUnmodifiedSince }
}

/** True where a GET or HEAD is answered by 304. Throws PreconditionFailed. */
export function isNotModified(headers: ReadonlyMap<string, string>, subject: Subject): boolean {
  const verdict = judge(readConditions(headers, READING), subject)
  if (verdict === 'failed') throw s3Failure('PreconditionFailed')
  return verdict === 'not modified'
}

/** Holds the conditions on the source of a copy against it. Throws PreconditionFailed (S3 API CopyObject). */
export function checkCopySource(headers: ReadonlyMap<string, string>, subject: Subject): void {
  if (judge(readConditions(headers, COPYING), subject) !== 'holds') throw s3Failure('PreconditionFailed')
}

export type WriteCondition = { ifNoneMatch: true } | { ifMatch: string } | undefined

/**
 * The condition of a write, which is met in the statement that writes: `If-None-Match: *` or `If-Match`.
 * Throws NotImplemented for other forms, InvalidRequest for both.
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
 * The same, held against what is there now, so that a body whose condition fails already is never sent.
 * Throws PreconditionFailed; NoSuchKey where nothing is there to match.
 */
export function checkWriteCondition(condition: WriteCondition, present: Subject | undefined): void {
  if (!condition) return
  if ('ifNoneMatch' in condition) {
    if (present) throw s3Failure('PreconditionFailed')
    return
  }
  if (!present) throw s3Failure('NoSuchKey')
  if (condition.ifMatch !== '*' && condition.ifMatch !== present.etag) throw s3Failure('PreconditionFailed')
}

/** What an object has to be for a deletion to take it; undefined: may be anything. */
export interface DeleteCondition {
  /** `*`: any. */
  ifMatch: string | undefined
  size: number | undefined
  /** unitMs: 1,000 where only whole seconds were given. */
  lastModified: { ms: number; unitMs: 1 | 1_000 } | undefined
}

const HTTP_DATE = /^[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT$/
const ISO_DATE = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(?:Z|[+-]\d\d:\d\d)$/

/** A time as SDKs write it, or as lists show it, which is to the millisecond. */
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
 * The conditions of a deletion as they were sent, undefined where there are none (S3 API DeleteObject, DeleteObjects).
 * Throws InvalidArgument for one that cannot be read, since what is not understood must not be deleted past.
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

/** Holds the conditions of a deletion against an object. Throws PreconditionFailed. */
export function checkDeleteCondition(
  { ifMatch, size, lastModified }: DeleteCondition,
  { etag, contentLength, uploadedAt }: Pick<StoredObject, 'etag' | 'contentLength' | 'uploadedAt'>,
): void {
  const isSame =
    (ifMatch === undefined || ifMatch === '*' || ifMatch === etag) &&
    (size === undefined || size === contentLength) &&
    (lastModified === undefined ||
      Math.floor(uploadedAt.getTime() / lastModified.unitMs) === Math.floor(lastModified.ms / lastModified.unitMs))
  if (!isSame) throw s3Failure('PreconditionFailed')
}
