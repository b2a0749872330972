import { auditCommand, recordAudit } from '@platform/service/audit'
import { type Command, runCli } from '@platform/service/cli'
import type { Call } from '@platform/service/run-process'
import { aiCommands } from './areas/ai/commands.ts'
import { resealProviderKeys } from './areas/ai/governance/provider-keys.ts'
import { clusterCommands } from './areas/cluster/commands.ts'
import { resealSigningStates } from './areas/credentials/api-keys/api-keys.ts'
import { credentialsCommands } from './areas/credentials/commands.ts'
import { deployCommands } from './areas/deploy/commands.ts'
import { resealDeploymentVariables } from './areas/deploy/deployments/variables.ts'
import { edgeCommands } from './areas/edge/commands.ts'
import { observeCommands } from './areas/observe/commands.ts'
import { overviewCommands } from './areas/overview/commands.ts'
import { storageCommands } from './areas/storage/commands.ts'
import { tenancyCommands } from './areas/tenancy/commands.ts'
import { resealVariables } from './areas/tenancy/env-vars/env-vars.ts'
import { quotaNames } from './areas/tenancy/products/registry.ts'
import { compose, prepareDatabase } from './compose.ts'
import { loadConfig } from './config.ts'
import type { Deps } from './deps.ts'

const reencryptCommand: Command<Deps> = {
  name: 'keys reencrypt',
  usage: 'keys reencrypt',
  summary: 'seal everything that is sealed under the first of MASTER_KEYS',
  wordCount: 0,
  async run(deps) {
    const signingKeys = await deps.keySet.reencrypt()
    const variables = await resealVariables(deps)
    const deployments = await resealDeploymentVariables(deps)
    const apiKeys = await resealSigningStates(deps)
    const aiProviderKeys = await resealProviderKeys(deps)
    const details = { signingKeys, variables, deployments, apiKeys, aiProviderKeys }
    const event = { actor: 'operator', action: 'keys.reencrypted', subject: 'key:all', details } as const
    await recordAudit(deps.db, deps.now(), event)
    return { json: details }
  },
}

/** The command line of the service, as a function: runs a command and returns its exit code. */
export const runCommandLine = (call: Call): Promise<number> =>
  runCli(
    {
      name: 'api',
      commands: [
        ...tenancyCommands,
        ...storageCommands,
        ...credentialsCommands,
        reencryptCommand,
        ...aiCommands,
        ...clusterCommands,
        ...deployCommands,
        ...observeCommands,
        ...edgeCommands,
        ...overviewCommands,
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
