import { newId } from '@platform/runtime/new-id'
import type { Opened } from '../../area.ts'
import type { Config } from '../../config.ts'
import type { Core } from '../../core.ts'
import type { ClusterDeps, ClusterPorts } from './deps.ts'
import { discardGoneEdges } from './edges/discard-gone-edges.ts'
import { openMembership } from './edges/membership.ts'
import { clusterEndpoints } from './endpoints.ts'
import { openBoss } from './queues/boss.ts'
import { discardLostStreams, openStreamSlots } from './streams/stream-slots.ts'

export async function openCluster(
  core: Core,
  config: Pick<Config, 'DATABASE_URL'>,
): Promise<Opened<ClusterDeps, ClusterPorts>> {
  const { db, logger } = core
  const pgBoss = await openBoss({ db, databaseUrl: config.DATABASE_URL, logger })
  const streamSlots = openStreamSlots(core)
  const membership = openMembership({ db, logger, id: newId() })
  return {
    deps: core,
    endpoints: clusterEndpoints,
    ports: { membership, pgBoss, streamSlots },
    jobs: [
      { name: 'discard the streams of killed processes', run: discardLostStreams },
      { name: 'discard killed edges', run: discardGoneEdges },
    ],
    streams: { refuseNew: () => streamSlots.refuseNew() },
    async close() {
      await membership.leave()
      await pgBoss.close()
      await streamSlots.close()
    },
  }
}
