import { discardAuditEvents } from '@platform/service/audit'
import { type Jobs, startPeriodicJobs } from '@platform/service/periodic-jobs'
import type { Part } from '@platform/service/run-service'
import type { Config } from '../config.ts'
import type { Deps } from '../deps.ts'
import { keepUsageMonths } from '../areas/ai/governance/record-usage.ts'
import { discardWindows } from '../areas/ai/governance/budgets/windows.ts'
import { sweepHolds } from '../areas/ai/governance/budgets/sweep-holds.ts'
import { pollVideos } from '../areas/ai/gateway/videos/poll-videos.ts'
import { discardResponses } from '../areas/ai/gateway/stored-responses.ts'
import { discardVideos } from '../areas/ai/gateway/videos/video-jobs.ts'
import { openArtifactCollector } from '../areas/deploy/artifacts/collect-artifacts.ts'
import { removeFiles } from '../areas/deploy/artifacts/remove-files.ts'
import { startCronWorker } from '../areas/edge/crons/cron-worker.ts'
import { discardCronRuns, sweepCronRuns } from '../areas/edge/crons/runs.ts'
import { startBuildWorker } from '../areas/deploy/builds/build-worker.ts'
import { discardBuildCaches } from '../areas/deploy/builds/build-cache.ts'
import { discardPatternVerdicts } from '../areas/deploy/builds/pattern-verdicts.ts'
import { sweepDeployments } from '../areas/deploy/builds/sweep-deployments.ts'
import { compressNewArtifacts } from '../areas/deploy/artifacts/compress-artifacts.ts'
import { discardActivities } from '../areas/tenancy/activity/record.ts'
import { discardDeployments } from '../areas/deploy/deployments/discard-deployments.ts'
import { openRetirement } from '../areas/deploy/deployments/retirement.ts'
import { discardGoneEdges } from '../areas/cluster/edges/discard-gone-edges.ts'
import { keepImageCaches } from '../areas/edge/images/keep-image-caches.ts'
import { discardData } from '../areas/edge/isr/discard-data.ts'
import { discardPages } from '../areas/edge/isr/discard-pages.ts'
import { discardLostSlots } from '../areas/edge/functions/record-usage.ts'
import { discardExpiredPins } from '../areas/edge/sticky-sessions/discard-pins.ts'
import { discardIdempotentRequests } from '../http/idempotency.ts'
import { discardLostStreams } from '../areas/cluster/streams/stream-slots.ts'
import { keepDays } from '../areas/observe/request-logs/days.ts'
import { keepRuntimeLogDays } from '../areas/observe/runtime-logs/days.ts'
import { openPathRanker } from '../areas/observe/request-logs/path-ranks.ts'
import { discardFollowed } from '../areas/observe/request-logs/follow.ts'
import { discardSummaries } from '../areas/observe/request-logs/request-summary.ts'
import { sumStoredBytes } from '../areas/storage/objects/stored-bytes.ts'
import { discardTrash } from '../areas/storage/objects/trash.ts'
import { expireUploads } from '../areas/storage/uploads/uploads.ts'
import { collectGarbage } from '../areas/storage/objects/maintenance/collect-garbage.ts'
import { mergeBlobs } from '../areas/storage/objects/maintenance/merge-blobs.ts'

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
