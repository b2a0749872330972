import { type Jobs, type PeriodicJobs, startPeriodicJobs } from '@platform/service/periodic-jobs'
import type { Deps } from '../deps.ts'
import { discardActivities } from '../features/activity/record.ts'
import { discardIdempotentRequests } from '../http/idempotency.ts'
import { discardLostStreams } from '../features/streams/stream-slots.ts'
import { keepDays } from '../features/request-logs/days.ts'
import { openPathRanker } from '../features/request-logs/path-ranks.ts'
import { expireUploads } from '../features/uploads/uploads.ts'
import { collectGarbage } from '../features/storage/maintenance/collect-garbage.ts'
import { mergeBlobs } from '../features/storage/maintenance/merge-blobs.ts'

/** The jobs of the worker, in the order they run in. */
const openJobs = (): Jobs<Deps> => ({
  'discard idempotent requests': discardIdempotentRequests,
  'discard activities': discardActivities,
  'discard the streams of killed processes': discardLostStreams,
  'keep the days of request logs': keepDays,
  'expire uploads': expireUploads,
  'merge the pieces of scattered objects': mergeBlobs,
  'collect the bytes of what is gone': collectGarbage,
  'rank the paths of request logs': openPathRanker(),
})

/**
 * Runs the jobs at the start and every `everyMs` from then on. It is unhealthy once a job has failed three times in a row.
 * Signing keys are not among them: the key set makes them by a timer of its own, in every role.
 */
export const startWorker = (deps: Deps, everyMs: number): PeriodicJobs =>
  startPeriodicJobs(deps, openJobs(), { everyMs, isFirstAtOnce: true })
