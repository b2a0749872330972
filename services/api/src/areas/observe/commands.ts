import type { Command } from '@platform/service/cli'
import type { Deps } from '../../deps.ts'

export const observeCommands: readonly Command<Deps>[] = []
