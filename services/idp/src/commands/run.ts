import { auditCommand } from '@platform/service/audit'
import { runCli } from '@platform/service/cli'
import { compose, migrate } from '../compose.ts'
import { loadConfig } from '../config.ts'
import { applyCommand } from './apply.ts'
import { clientCommands } from './clients.ts'
import { initCommand } from './init.ts'
import { keyCommands } from './keys.ts'
import { userCommands } from './users.ts'

await runCli({
  name: 'idp',
  commands: [initCommand, applyCommand, ...userCommands, ...clientCommands, ...keyCommands, auditCommand],
  notes: [],
  prints: 'text',
  loadConfig,
  migrate,
  compose,
})
