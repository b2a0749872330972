import { discardAuditEvents } from '@platform/service/audit'
import { type Jobs, startPeriodicJobs } from '@platform/service/periodic-jobs'
import type { Part } from '@platform/service/run-service'
import type { Config } from '../config.ts'
import type { Deps } from '../deps.ts'
import { keepUsageMonths } from '../features/ai-governance/record-usage.ts'
import { discardWindows } from '../features/ai-governance/budgets/windows.ts'
import { sweepHolds } from '../features/ai-governance/budgets/sweep-holds.ts'
import { pollVideos } from '../features/ai-gateway/videos/poll-videos.ts'
import { discardResponses } from '../features/ai-gateway/stored-responses.ts'
import { discardVideos } from '../features/ai-gateway/videos/video-jobs.ts'
import { openArtifactCollector } from '../features/artifacts/collect-artifacts.ts'
import { removeFiles } from '../features/artifacts/remove-files.ts'
import { startCronWorker } from '../features/crons/cron-worker.ts'
import { discardCronRuns, sweepCronRuns } from '../features/crons/runs.ts'
import { startBuildWorker } from '../features/builds/build-worker.ts'
import { discardBuildCaches } from '../features/builds/build-cache.ts'
import { discardPatternVerdicts } from '../features/builds/pattern-verdicts.ts'
import { sweepDeployments } from '../features/builds/sweep-deployments.ts'
import { compressNewArtifacts } from '../features/artifacts/compress-artifacts.ts'
import { discardActivities } from '../features/activity/record.ts'
import { discardDeployments } from '../features/deployments/discard-deployments.ts'
import { openRetirement } from '../features/deployments/retirement.ts'
import { discardGoneEdges } from '../features/edges/discard-gone-edges.ts'
import { keepImageCaches } from '../features/images/keep-image-caches.ts'
import { discardData } from '../features/isr/discard-data.ts'
import { discardPages } from '../features/isr/discard-pages.ts'
import { discardLostSlots } from '../features/functions/record-usage.ts'
import { discardExpiredPins } from '../features/sticky-sessions/discard-pins.ts'
import { discardIdempotentRequests } from '../http/idempotency.ts'
import { discardLostStreams } from '../features/streams/stream-slots.ts'
import { keepDays } from '../features/request-logs/days.ts'
import { keepRuntimeLogDays } from '../features/runtime-logs/days.ts'
import { openPathRanker } from '../features/request-logs/path-ranks.ts'
import { discardFollowed } from '../features/request-logs/follow.ts'
import { discardSummaries } from '../features/request-logs/request-summary.ts'
import { sumStoredBytes } from '../features/storage/stored-bytes.ts'
import { discardTrash } from '../features/storage/trash.ts'
import { expireUploads } from '../features/uploads/uploads.ts'
import { collectGarbage } from '../features/storage/maintenance/collect-garbage.ts'
import { mergeBlobs } from '../features/storage/maintenance/merge-blobs.ts'

/** Interval between sweeps: the longest that a deployment waits after its lease has lapsed. */
const SWEEP_MS = 5_000

/** Interval between sums of stored bytes: the longest that an organization can exceed its quota unnoticed. */
const SUM_MS = 30_000

/** How long the worker keeps deleted or old data; 0: forever. */
interface Retention {
  trashDays: number
  auditDays: number
  /** Counted from a deployment's retirement or failure. */
  deploymentDays: number
  usageMonths: number
}

export const retentionOf = (config: Config): Retention => ({
  trashDays: config.TRASH_RETENTION_DAYS,
  auditDays: config.AUDIT_RETENTION_DAYS,
  deploymentDays: config.DEPLOYMENT_RETENTION_DAYS,
  usageMonths: config.AI_USAGE_RETENTION_MONTHS,
})

/** The jobs that run every `JOBS_EVERY_MS`, in the order they run. */
const openJobs = ({ trashDays, auditDays, deploymentDays, usageMonths }: Retention): Jobs<Deps> => ({
  'discard idempotent requests': discardIdempotentRequests,
  'discard activities': discardActivities,
  'discard audit events': (deps) => discardAuditEvents(deps, auditDays),
  'discard old trash': (deps) => discardTrash(deps, trashDays),
  'discard the streams of killed processes': discardLostStreams,
  'keep the days of request logs': keepDays,
  'keep the days of runtime logs': keepRuntimeLogDays,
  'keep the months of AI usage': (deps) => keepUsageMonths(deps, usageMonths),
  'discard the windows of AI budgets': discardWindows,
  'discard the sums of requests': discardSummaries,
  'discard the order of followed requests': discardFollowed,
  'discard the slots of killed edges': discardLostSlots,
  'discard killed edges': discardGoneEdges,
  'discard the pins of expired sticky URLs': discardExpiredPins,
  'expire uploads': expireUploads,
  'discard what AI providers keep no more': discardResponses,
  'discard expired AI videos': discardVideos,
  'discard the jobs of builds': ({ builds }) => builds.discardTaken(),
  'discard the jobs of crons': ({ cronQueue }) => cronQueue.discardTaken(),
  'discard the runs of crons': discardCronRuns,
  'discard what builds kept': discardBuildCaches,
  'discard the verdicts of unused patterns': discardPatternVerdicts,
  'retire old deployments': openRetirement(),
  'remove the files of retired deployments': removeFiles,
  'collect the files of no deployment': openArtifactCollector(),
  'keep image caches within their quotas': keepImageCaches,
  'discard the pages of retired deployments': discardPages,
  'discard the data of retired deployments': discardData,
  'discard old deployments': (deps) => discardDeployments(deps, deploymentDays),
  'compress the files of deployments': compressNewArtifacts,
  'merge the pieces of scattered objects': mergeBlobs,
  'collect the bytes of what is gone': collectGarbage,
  'rank the paths of request logs': openPathRanker(),
})

/** Every job of the worker, in groups that run side by side. */
export const openJobGroups = (retention: Retention) => ({
  jobs: openJobs(retention),
  sweep: { 'look after deployments': sweepDeployments, 'end the cron runs of killed edges': sweepCronRuns },
  videos: { 'look at AI videos': pollVideos, 'settle the AI calls of killed processes': sweepHolds },
  sums: { 'sum the bytes of organizations': sumStoredBytes },
})

/**
 * Works on deployments as they arrive, and runs the jobs at start and then every `everyMs`. The worker is unhealthy once a job
 * has failed three times in a row. Rotating signing keys is not a job: in every role the key set does it on a timer of its own.
 */
export function startWorker(deps: Deps, everyMs: number, retention: Retention): Part {
  const groups = openJobGroups(retention)
  const jobs = startPeriodicJobs(deps, groups.jobs, { everyMs, isFirstAtOnce: true })
  const sweep = startPeriodicJobs(deps, groups.sweep, { everyMs: SWEEP_MS, isFirstAtOnce: true })
  const videos = startPeriodicJobs(deps, groups.videos, { everyMs: SWEEP_MS, isFirstAtOnce: true })
  const sums = startPeriodicJobs(deps, groups.sums, { everyMs: SUM_MS, isFirstAtOnce: true })
  const builds = startBuildWorker(deps)
  const crons = startCronWorker(deps)
  return {
    isHealthy: () => [jobs, sweep, videos, sums].every((group) => group.isHealthy()),
    async stop() {
      await Promise.all([builds, crons, sweep, videos, sums, jobs].map((part) => part.stop()))
    },
  }
}
