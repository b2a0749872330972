import type { Command } from '@platform/service/cli'
import type { EdgeDeps } from './deps.ts'

export const edgeCommands: readonly Command<EdgeDeps>[] = []
