import type { Command } from '@platform/service/cli'
import type { OverviewDeps } from './deps.ts'

export const overviewCommands: readonly Command<OverviewDeps>[] = []
