import type { Core } from '../../core.ts'
import type { Membership } from './edges/membership.ts'
import type { Boss } from './queues/boss.ts'
import type { StreamSlots } from './streams/stream-slots.ts'

/** What processes share through Postgres needs nothing but the core. */
export type ClusterDeps = Core

export interface ClusterPorts {
  /** This process's membership among the edges. */
  membership: Membership
  pgBoss: Boss
  /** The cap on open streams. */
  streamSlots: StreamSlots
}
