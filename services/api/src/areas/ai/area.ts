import { ConfigError } from '@platform/runtime/config'
import type { Opened } from '../../area.ts'
import type { Config } from '../../config.ts'
import type { Core } from '../../core.ts'
import type { AiDeps } from './deps.ts'
import { aiEndpoints } from './endpoints.ts'
import { openAiGateway } from './gateway/gateway.ts'
import { WrongProviderFile } from './gateway/providers/provider-file.ts'
import type { AiTimings } from './gateway/providers/timings.ts'
import { discardResponses } from './gateway/stored-responses.ts'
import { pollVideos } from './gateway/videos/poll-videos.ts'
import { discardVideos } from './gateway/videos/video-jobs.ts'
import { sweepHolds } from './governance/budgets/sweep-holds.ts'
import { discardWindows } from './governance/budgets/windows.ts'
import { resealProviderKeys } from './governance/provider-keys.ts'
import { keepUsageMonths, openUsageRecorder } from './governance/record-usage.ts'

/** Time reserved for telling readers of streams that the process is stopping. */
const SAYING_SO_MS = 2_000
const LOOK_MS = 5_000

/** Throws ConfigError if the file of AI_PROVIDERS is invalid. */
export async function openAi(
  core: Core,
  config: Pick<Config, 'AI_PROVIDERS' | 'AI_USAGE_RETENTION_MONTHS' | 'readVariable'>,
  timings: Partial<AiTimings> | undefined,
): Promise<Opened<AiDeps>> {
  const { now, logger } = core
  const { AI_PROVIDERS: path, readVariable } = config
  const ai = await openAiGateway({ path, readVariable, logger, now, timings }).catch((error: unknown) => {
    throw error instanceof WrongProviderFile ? new ConfigError(`AI_PROVIDERS: ${error.message}`) : error
  })
  const usage = openUsageRecorder(core)
  let cancelEnd = () => {}
  return {
    deps: { ...core, ai, usage },
    endpoints: aiEndpoints,
    ports: {},
    jobs: [
      {
        name: 'keep the months of AI usage',
        run: (deps) => keepUsageMonths(deps, config.AI_USAGE_RETENTION_MONTHS),
      },
      { name: 'discard the windows of AI budgets', run: discardWindows },
      { name: 'discard what AI providers keep no more', run: discardResponses },
      { name: 'discard expired AI videos', run: discardVideos },
      { name: 'look at AI videos', everyMs: LOOK_MS, run: pollVideos },
      { name: 'settle the AI calls of killed processes', everyMs: LOOK_MS, run: sweepHolds },
    ],
    sealed: [{ name: 'aiProviderKeys', reseal: resealProviderKeys }],
    streams: {
      // Before connections are cut, so that readers of streams learn why they end.
      end: (drainMs) => void (cancelEnd = ai.calls.endAfter(Math.max(0, drainMs - SAYING_SO_MS))),
      // Calls outlive their connections: usage must be recorded even if the client has left.
      async over() {
        await ai.calls.over()
        cancelEnd()
      },
    },
    reload: () => ai.reload(),
    async close() {
      await usage.close()
      await ai.close()
    },
  }
}
