import { auditCommand } from '@platform/service/audit'
import { runCli } from '@platform/service/cli'
import type { Call } from '@platform/service/run-process'
import { compose, prepareDatabase } from '../compose.ts'
import { loadConfig } from '../config.ts'
import { applyCommand } from './apply.ts'
import { clientCommands } from './clients.ts'
import { initCommand } from './init.ts'
import { keyCommands } from './keys.ts'
import { userCommands } from './users.ts'

/** The command line of the service, as a function: runs a command and returns its exit code. */
export const runCommandLine = (call: Call): Promise<number> =>
  runCli(
    {
      name: 'idp',
      commands: [initCommand, applyCommand, ...userCommands, ...clientCommands, ...keyCommands, auditCommand],
      notes: [],
      prints: 'text',
      loadConfig,
      prepareDatabase,
      compose,
    },
    call,
  )
