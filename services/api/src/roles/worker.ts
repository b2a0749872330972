import type { Deps } from '../deps.ts'
import { discardActivities } from '../features/activity/record.ts'
import { discardIdempotentRequests } from '../http/idempotency.ts'
import { discardLostStreams } from '../features/streams/stream-slots.ts'
import { keepDays } from '../features/request-logs/days.ts'
import { openPathRanker } from '../features/request-logs/path-ranks.ts'
import { expireUploads } from '../features/uploads/uploads.ts'
import { collectGarbage } from '../features/storage/maintenance/collect-garbage.ts'
import { mergeBlobs } from '../features/storage/maintenance/merge-blobs.ts'

const EVERY_MS = 600_000

/** What has to be done now and then. Each is safe to repeat, and in two workers at once. */
const openChores = (): Record<string, (deps: Deps) => Promise<void>> => ({
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
 * Does the chores at the start and every ten minutes from then on. One that fails is logged and done again the next time.
 * The signing keys turn by the key set's own timer.
 */
export function startWorker(deps: Deps): { stop(): Promise<void> } {
  const chores = openChores()
  let running = Promise.resolve()
  const doChores = async () => {
    for (const [chore, run] of Object.entries(chores))
      await run(deps).catch((error: unknown) => deps.logger.warn({ err: error, chore }, 'a chore failed'))
  }
  const start = () => void (running = running.then(doChores))
  start()
  const timer = setInterval(start, EVERY_MS).unref()
  return {
    async stop() {
      clearInterval(timer)
      await running
    },
  }
}
