import type { PlatformError } from './errors.ts'
import type { Place } from './place.ts'
import { uuidV7 } from './uuid-v7.ts'

/** How an operation may be repeated after a failure that can pass (A §7). Each is an object, so that a bundle holds those it uses. */
export interface Repetition {
  /** Whether another try may follow this failure. isRepetition: an earlier try may have had its effect. */
  mayRepeat(failure: PlatformError, isRepetition: boolean): boolean
  /** Whether the failure says that an earlier try has done what was asked. */
  isDone?(failure: PlatformError, isRepetition: boolean): boolean
  /** What is a header, where the operation does not say. */
  place?: Place
  /** Where a call does not say. */
  options?: { retries: number; tryMs: number; timeoutMs: number }
}

const isRetryable = ({ retryable }: PlatformError): boolean => retryable

/** What changes nothing the second time: always. */
export const repeat: Repetition = { mayRepeat: isRetryable }

/** A removal: always; a repetition that finds nothing has succeeded. */
export const remove: Repetition = {
  mayRepeat: isRetryable,
  isDone: ({ status }, isRepetition) => status === 404 && isRepetition,
}

/** A creation: always, under an Idempotency-Key. A 409 can mean that the first try is still under way. */
export const create: Repetition = {
  mayRepeat: ({ retryable, status }, isRepetition) => retryable || (status === 409 && isRepetition),
  place: (params, key = uuidV7()) => [params, { 'idempotency-key': key }],
}

/** Node's reasons for a connection that was never made; browsers tell none. */
const NOT_CONNECTED = ['ECONNREFUSED', 'ENOTFOUND']

/** Where a second time would be once too often: only if no connection was made, or if the platform did not let it in (429). */
export const once: Repetition = {
  mayRepeat: ({ retryable, status, code = '' }) =>
    status === 429 ? retryable : status === 0 && NOT_CONNECTED.includes(code),
}

/** Inference, where each try may cost: once more where no provider has answered. The platform gives a provider ten minutes. */
export const infer: Repetition = {
  mayRepeat: ({ retryable, status }) => retryable && (status === 503 || status === 429),
  options: { retries: 1, tryMs: 600_000, timeoutMs: 600_000 },
}
