import {
  type ApplicationRuntimeLog,
  follow,
  listApplicationRuntimeLogs,
  type ListApplicationRuntimeLogsData,
  listRuntimeLogs,
  type Platform,
  type RuntimeLog,
  streamApplicationRuntimeLogs,
  streamRuntimeLogs,
} from '@platform/sdk'
import type { FeedSource } from '../../log/feed.ts'
import type { LogLine } from '../../log/lines.ts'
import { laterOf, placeOfId } from './ids.ts'

/** A line that a Function printed. */
export interface FunctionLine extends LogLine {
  functionName: string
  requestId: string | null
}

export type LineFilter = Omit<NonNullable<ListApplicationRuntimeLogsData['query']>, 'cursor' | 'limit'> & {
  deploymentId?: string
}

const functionLineOf = ({
  id,
  level,
  message,
  functionName,
  requestId,
}: RuntimeLog | ApplicationRuntimeLog): FunctionLine => ({
  ...placeOfId(id),
  level,
  text: message,
  functionName,
  requestId,
})

/** What the Functions of an application print, or those of one of its deployments. */
export function lineSource(
  platform: Platform,
  applicationId: string,
  { deploymentId, ...filter }: LineFilter,
): FeedSource<FunctionLine> {
  const { requestId, from: since, to, ...streamed } = filter
  return {
    async list({ from, ...query }, signal) {
      const params = { ...filter, ...query, ...laterOf(since, from) }
      const { items, total, nextCursor } =
        deploymentId === undefined
          ? await listApplicationRuntimeLogs(platform, { id: applicationId, ...params }, { signal })
          : await listRuntimeLogs(platform, { id: deploymentId, ...params }, { signal })
      return { lines: items.map(functionLineOf), total, nextCursor }
    },
    async *follow(options) {
      const events =
        deploymentId === undefined
          ? follow(streamApplicationRuntimeLogs, platform, { id: applicationId, ...streamed }, options)
          : follow(streamRuntimeLogs, platform, { id: deploymentId, ...streamed }, options)
      for await (const { data } of events) {
        // The stream has no filter for these.
        const isWanted =
          (requestId === undefined || data.requestId === requestId) &&
          (since === undefined || data.createdAt >= since) &&
          (to === undefined || data.createdAt < to)
        yield { id: data.id, line: isWanted ? functionLineOf(data) : undefined }
      }
    },
  }
}
