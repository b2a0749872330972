import type { Opened } from '../../area.ts'
import type { Config } from '../../config.ts'
import type { Core } from '../../core.ts'
import type { ClusterPorts } from '../cluster/deps.ts'
import type { ObserveDeps, ObservePorts } from './deps.ts'
import { observeEndpoints } from './endpoints.ts'
import { keepDays } from './request-logs/days.ts'
import { discardFollowed, openRequestFeed } from './request-logs/follow.ts'
import { openPathRanker } from './request-logs/path-ranks.ts'
import { discardSummaries } from './request-logs/request-summary.ts'
import { openRequestLog } from './request-logs/write.ts'
import { keepRuntimeLogDays } from './runtime-logs/days.ts'
import { openRuntimeLogFeed } from './runtime-logs/feed.ts'
import { openRuntimeLog } from './runtime-logs/write.ts'

interface Options extends Pick<ClusterPorts, 'streamSlots'> {
  heartbeatMs: number | undefined
}

export function openObserve(
  core: Core,
  config: Pick<Config, 'JOBS_EVERY_MS'>,
  { streamSlots, heartbeatMs }: Options,
): Opened<ObserveDeps, ObservePorts> {
  const requestFeed = openRequestFeed({ ...core, streamSlots }, heartbeatMs)
  const runtimeLogFeed = openRuntimeLogFeed({ ...core, streamSlots }, heartbeatMs)
  const requestLog = openRequestLog(core)
  const runtimeLog = openRuntimeLog(core)
  return {
    deps: { ...core, requestFeed, runtimeLogFeed },
    endpoints: observeEndpoints,
    ports: { requestLog, runtimeLog },
    jobs: [
      { name: 'keep the days of request logs', run: keepDays },
      { name: 'keep the days of runtime logs', run: keepRuntimeLogDays },
      { name: 'discard the sums of requests', run: discardSummaries },
      { name: 'discard the order of followed requests', run: discardFollowed },
      // After a start it reads all days, which may take minutes. With an interval of its own it delays no job of the areas below.
      { name: 'rank the paths of request logs', everyMs: config.JOBS_EVERY_MS, run: openPathRanker() },
    ],
    streams: {
      end() {
        requestFeed.endStreams()
        runtimeLogFeed.endStreams()
      },
    },
    async close() {
      await requestLog.close()
      await runtimeLog.close()
      requestFeed.close()
      runtimeLogFeed.close()
    },
  }
}
