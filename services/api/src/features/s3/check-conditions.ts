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
