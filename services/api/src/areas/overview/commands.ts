import type { Command } from '@platform/service/cli'
import type { Deps } from '../../deps.ts'

export const overviewCommands: readonly Command<Deps>[] = []
