import { AiError } from '@platform/errors/ai-error'
import { NotFound } from '@platform/errors/api-error'
import { discardBefore } from '@platform/runtime/discard-rows'
import { and, eq, inArray, isNull } from 'drizzle-orm'
import type { AiDeps } from '../../deps.ts'
import type { Placement } from '../place-call.ts'
import { aiVideoJobs } from '../table.ts'

export type VideoJob = typeof aiVideoJobs.$inferSelect

/** Jobs expire after this time, whatever their state; expired ones can be read for as long again. */
export const VIDEO_KEPT_MS = 86_400_000

/** States in which a job may still change. */
const openStatuses = ['pending', 'in_progress'] as const
export const isOpen = inArray(aiVideoJobs.status, [...openStatuses])

/** Finds a job of the caller's organization and application. Throws AiError for any other. */
export async function reachVideoJob(
  { db }: Pick<AiDeps, 'db'>,
  { organizationId, applicationId }: Placement,
  id: string,
): Promise<VideoJob> {
  const [job] = await db
    .select()
    .from(aiVideoJobs)
    .where(
      and(
        eq(aiVideoJobs.id, id),
        eq(aiVideoJobs.organizationId, organizationId),
        applicationId === null ? isNull(aiVideoJobs.applicationId) : eq(aiVideoJobs.applicationId, applicationId),
      ),
    )
  if (!job) throw new NotFound('Video')
  return job
}

/** Formats a job for its caller. */
export function shownVideoJob({ publicUrl, now }: Pick<AiDeps, 'publicUrl' | 'now'>, job: VideoJob) {
  const isExpired = job.expiresAt <= now()
  const hasVideo = job.status === 'completed' && !isExpired
  return {
    id: job.id,
    object: 'video' as const,
    status: isExpired ? ('expired' as const) : job.status,
    model: job.model,
    created_at: Math.floor(job.createdAt.getTime() / 1_000),
    expires_at: Math.floor(job.expiresAt.getTime() / 1_000),
    video: hasVideo ? { url: `${publicUrl}/ai/v1/videos/${job.id}/content`, duration: job.duration } : null,
    error: job.errorCode === null ? null : { code: job.errorCode, message: job.errorMessage ?? job.errorCode },
    usage: hasVideo && job.duration !== null ? { seconds: job.duration } : null,
  }
}

/** Deletes jobs a day after they expired. */
export async function discardVideos({ db, now }: Pick<AiDeps, 'db' | 'now'>): Promise<void> {
  await discardBefore(db, aiVideoJobs.expiresAt, new Date(now().getTime() - VIDEO_KEPT_MS))
}

export const notReady = (): AiError =>
  new AiError(409, 'invalid_request_error', 'video_not_ready', 'There is no video yet, or no more')
