import { listOf } from '@platform/ai-protocols/record'
import type { Provider } from '../providers/model.ts'

type VideoStatus = 'pending' | 'in_progress' | 'completed' | 'failed' | 'cancelled' | 'expired'

/** What providers call the states of a job, and what the gateway does. */
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

/** A provider's word on a job. */
export interface UpstreamJob {
  id: string
  status: VideoStatus
  /** Where the video may be fetched from; undefined: below the job. */
  contentUrl: string | undefined
  /** Seconds, if it says. */
  duration: number | undefined
}

const ID_LENGTH_MAX = 512
const URL_LENGTH_MAX = 8_192
/** A day. */
const SECONDS_MAX = 86_400

/** An id that can be stored, and named in a path: as a segment of dots it would lead elsewhere. */
const isId = (value: unknown): value is string =>
  typeof value === 'string' &&
  value.length <= ID_LENGTH_MAX &&
  value.isWellFormed() &&
  !value.includes('\0') &&
  !/^\.{0,2}$/.test(value)

/** True if a video may be fetched there: from the provider itself, or a host that its entry lists. */
function mayFetchFrom(url: URL, { baseUrl, contentHosts }: Provider): boolean {
  return url.origin === baseUrl?.origin || (/^https?:$/.test(url.protocol) && contentHosts.includes(url.hostname))
}

/** Reads a job of a provider. Throws TypeError for what is none. */
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
