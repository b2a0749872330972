import type { Command } from '@platform/service/cli'
import type { ClusterDeps } from './deps.ts'

export const clusterCommands: readonly Command<ClusterDeps>[] = []
