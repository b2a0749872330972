import type { Command } from '@platform/service/cli'
import type { TenancyDeps } from './deps.ts'
import { memberCommands } from './commands/members.ts'
import { productCommands } from './commands/products.ts'
import { quotaCommands } from './commands/quotas.ts'

export const tenancyCommands: readonly Command<TenancyDeps>[] = [
  ...memberCommands,
  ...productCommands,
  ...quotaCommands,
]
