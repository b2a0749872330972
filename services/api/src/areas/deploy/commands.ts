import type { Command } from '@platform/service/cli'
import type { DeployDeps } from './deps.ts'

export const deployCommands: readonly Command<DeployDeps>[] = []
