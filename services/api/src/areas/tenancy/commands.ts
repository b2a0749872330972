import type { Command } from '@platform/service/cli'
import type { Deps } from '../../deps.ts'
import { memberCommands } from './commands/members.ts'
import { productCommands } from './commands/products.ts'
import { quotaCommands } from './commands/quotas.ts'

export const tenancyCommands: readonly Command<Deps>[] = [...memberCommands, ...productCommands, ...quotaCommands]
