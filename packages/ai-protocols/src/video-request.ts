import {
  type Check,
  type Fault,
  faultOf,
  isFilledText,
  isIntegerFrom,
  isModelId,
  isObjectWith,
  isProviderChoice,
  optional,
  type ProviderChoice,
} from './fault.ts'

/** The body of `POST /videos`, as `checkVideoRequest` leaves it: members that are not named here are whatever came. */
export interface VideoRequest {
  model: string
  prompt: string
  /** Seconds, as is `seconds`: more than 0, at most 600. */
  duration?: number | string | null
  seconds?: number | string | null
  /** Width and height in pixels, such as `1280x720`. */
  size?: string | null
  resolution?: string | null
  seed?: number | null
  provider?: ProviderChoice | null
  [member: string]: unknown
}

const SECONDS_MAX = 600
const DECIMAL = /^\d+(?:\.\d+)?$/
const SIZE = /^[1-9]\d{0,4}x[1-9]\d{0,4}$/

const isSeconds: Check = (value) => {
  const seconds = typeof value === 'string' && DECIMAL.test(value) ? Number(value) : value
  return typeof seconds === 'number' && seconds > 0 && seconds <= SECONDS_MAX
    ? undefined
    : faultOf(`must be a number of seconds above 0, at most ${SECONDS_MAX}`)
}

const isSize: Check = (value) =>
  typeof value === 'string' && SIZE.test(value) ? undefined : faultOf('must be a size in pixels, such as 1280x720')

const isRequest = isObjectWith({
  model: isModelId,
  prompt: isFilledText,
  duration: optional(isSeconds),
  seconds: optional(isSeconds),
  size: optional(isSize),
  resolution: optional(isFilledText),
  seed: optional(isIntegerFrom(Number.MIN_SAFE_INTEGER)),
  provider: optional(isProviderChoice),
})

/** Checks the body of a video request. Returns the first fault; without one the body is a VideoRequest. */
export function checkVideoRequest(body: unknown): Fault | undefined {
  return isRequest(body)
}
