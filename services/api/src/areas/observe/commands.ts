import type { Command } from '@platform/service/cli'
import type { ObserveDeps } from './deps.ts'

export const observeCommands: readonly Command<ObserveDeps>[] = []
