import type { Command } from '@platform/service/cli'
import type { Deps } from '../../deps.ts'

export const deployCommands: readonly Command<Deps>[] = []
