import { auditCommand } from '@platform/service/audit'
import { runCli } from '@platform/service/cli'
import type { Call } from '@platform/service/run-process'
import { compose, prepareDatabase } from '../compose.ts'
import { loadConfig } from '../config.ts'
import { quotaNames } from '../areas/tenancy/products/registry.ts'
import { aiCommands } from '../areas/ai/commands.ts'
import { keyCommands } from './keys.ts'
import { memberCommands } from '../areas/tenancy/commands/members.ts'
import { productCommands } from '../areas/tenancy/commands/products.ts'
import { quotaCommands } from '../areas/tenancy/commands/quotas.ts'
import { storageCommands } from '../areas/storage/commands.ts'

/** The command line of the service, as a function: runs a command and returns its exit code. */
export const runCommandLine = (call: Call): Promise<number> =>
  runCli(
    {
      name: 'api',
      commands: [
        ...memberCommands,
        ...productCommands,
        ...quotaCommands,
        ...storageCommands,
        ...keyCommands,
        ...aiCommands,
        auditCommand,
      ],
      notes: [
        `Products are network, storage and ai-gateway; plans are free and pro; quotas are ${quotaNames.join(', ')}.`,
        'Prints a line of JSON.',
      ],
      prints: 'json',
      loadConfig,
      prepareDatabase,
      compose,
    },
    call,
  )
