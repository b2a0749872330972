import { listOf } from '@platform/ai-protocols/record'
import type { Provider } from '../providers/model.ts'

type VideoStatus = 'pending' | 'in_progress' | 'completed' | 'failed' | 'cancelled' | 'expired'

/** Providers' names for the states of a job, and the gateway's. */
const statuses: Readonly<Record<string, VideoStatus>> = {
  pending: 'pending',
  queued: 'pending',
  in_progress: 'in_progress',
  processing: 'in_progress',
  running: 'in_progress',
  completed: 'completed',
  succeeded: 'completed',
  failed: 'failed',
  error: 'failed',
  cancelled: 'cancelled',
  canceled: 'cancelled',
  expired: 'expired',
}

/** A job as its provider describes it. */
export interface UpstreamJob {
  id: string
  status: VideoStatus
  /** URL of the video; undefined: below the job. */
  contentUrl: string | undefined
  /** Seconds, if reported. */
  duration: number | undefined
}

const ID_LENGTH_MAX = 512
const URL_LENGTH_MAX = 8_192
/** A day. */
const SECONDS_MAX = 86_400

/** True for an id that can be stored and used as a path segment: a segment of dots would lead elsewhere. */
const isId = (value: unknown): value is string =>
  typeof value === 'string' &&
  value.length <= ID_LENGTH_MAX &&
  value.isWellFormed() &&
  !value.includes('\0') &&
  !/^\.{0,2}$/.test(value)

/** True if a video may be fetched from there: the provider itself, or a host listed in its entry. */
function mayFetchFrom(url: URL, { baseUrl, contentHosts }: Provider): boolean {
  return url.origin === baseUrl?.origin || (/^https?:$/.test(url.protocol) && contentHosts.includes(url.hostname))
}

/** Reads a provider's job. Throws TypeError if it is invalid. */
export function readUpstreamJob(value: unknown, provider: Provider): UpstreamJob {
  if (typeof value !== 'object' || value === null) throw new TypeError('Not a job')
  const { id, status, duration } = value as Record<string, unknown>
  const known = typeof status === 'string' && Object.hasOwn(statuses, status) ? statuses[status] : undefined
  if (!isId(id) || known === undefined) throw new TypeError('Not a job')
  const contentUrl = [...listOf(value, 'urls'), ...listOf(value, 'unsigned_urls')]
    .map((url) => (typeof url === 'string' && url.length <= URL_LENGTH_MAX ? URL.parse(url) : null))
    .find((url) => url !== null && mayFetchFrom(url, provider))
  return {
    id,
    status: known,
    contentUrl: contentUrl?.href,
    duration: typeof duration === 'number' && duration > 0 && duration <= SECONDS_MAX ? duration : undefined,
  }
}
