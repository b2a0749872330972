import { bareEtag, namesEtag } from '@platform/service/entity-tag'
import type { StoredObject } from './commit-object.ts'

export { bareEtag, quotedEtag } from '@platform/service/entity-tag'

/** What a condition is held against. */
export type Subject = Pick<StoredObject, 'etag' | 'uploadedAt'>

/** HTTP dates have seconds only. */
const seconds = (at: Date): number => Math.floor(at.getTime() / 1_000)

function dateOf(text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  const at = new Date(text)
  return Number.isNaN(at.getTime()) ? undefined : seconds(at)
}

/** The four conditions, by the headers that carry them. */
export interface Conditions {
  ifMatch: string | undefined
  ifNoneMatch: string | undefined
  ifModifiedSince: string | undefined
  ifUnmodifiedSince: string | undefined
}

/** RFC 9110 §13.2.2: an entity tag speaks louder than a date. */
export function judge(
  { ifMatch, ifNoneMatch, ifModifiedSince, ifUnmodifiedSince }: Conditions,
  { etag, uploadedAt }: Subject,
): 'holds' | 'failed' | 'not modified' {
  const at = seconds(uploadedAt)
  if (ifMatch !== undefined) {
    if (!namesEtag(ifMatch, etag)) return 'failed'
  } else {
    const since = dateOf(ifUnmodifiedSince)
    if (since !== undefined && at > since) return 'failed'
  }
  if (ifNoneMatch !== undefined) return namesEtag(ifNoneMatch, etag) ? 'not modified' : 'holds'
  const since = dateOf(ifModifiedSince)
  return since !== undefined && at <= since ? 'not modified' : 'holds'
}

/** RFC 9110 §13.1.5: whether a range is still one of the same object. */
export function isRangeCurrent(ifRange: string | undefined, { etag, uploadedAt }: Subject): boolean {
  if (ifRange === undefined) return true
  const since = /^(W\/)?"/.test(ifRange.trim()) ? undefined : dateOf(ifRange)
  return since === undefined
    ? bareEtag(ifRange) === etag && !ifRange.trim().startsWith('W/')
    : seconds(uploadedAt) === since
}
