import { bareEtag, namesEtag } from './entity-tag.ts'

/** The validators of a representation (RFC 9110 §8.8), which conditions are compared to. */
export interface Validators {
  /** Without quotes. */
  etag: string
  uploadedAt: Date
}

/** HTTP dates have a precision of one second. */
const seconds = (time: Date): number => Math.floor(time.getTime() / 1_000)

function dateOf(text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  const time = new Date(text)
  return Number.isNaN(time.getTime()) ? undefined : seconds(time)
}

/** The conditions of a request, by header. */
export interface Conditions {
  ifMatch: string | undefined
  ifNoneMatch: string | undefined
  ifModifiedSince: string | undefined
  ifUnmodifiedSince: string | undefined
}

/** Evaluates preconditions in the order of RFC 9110 §13.2.2: an entity tag takes precedence over a date. */
export function evaluatePreconditions(
  { ifMatch, ifNoneMatch, ifModifiedSince, ifUnmodifiedSince }: Conditions,
  { etag, uploadedAt }: Validators,
): 'holds' | 'failed' | 'not modified' {
  const uploadedSeconds = seconds(uploadedAt)
  if (ifMatch !== undefined) {
    if (!namesEtag(ifMatch, etag)) return 'failed'
  } else {
    const since = dateOf(ifUnmodifiedSince)
    if (since !== undefined && uploadedSeconds > since) return 'failed'
  }
  if (ifNoneMatch !== undefined) return namesEtag(ifNoneMatch, etag) ? 'not modified' : 'holds'
  const since = dateOf(ifModifiedSince)
  return since !== undefined && uploadedSeconds <= since ? 'not modified' : 'holds'
}

/** True if a range may be sent: If-Range names the current object (RFC 9110 §13.1.5), or is absent. */
export function isRangeCurrent(ifRange: string | undefined, { etag, uploadedAt }: Validators): boolean {
  if (ifRange === undefined) return true
  const since = /^(W\/)?"/.test(ifRange.trim()) ? undefined : dateOf(ifRange)
  return since === undefined
    ? bareEtag(ifRange) === etag && !ifRange.trim().startsWith('W/')
    : seconds(uploadedAt) === since
}
