import { auditCommand, recordAudit } from '@platform/service/audit'
import { type Command, runCli } from '@platform/service/cli'
import type { Call } from '@platform/service/run-process'
import { aiCommands } from './areas/ai/commands.ts'
import { clusterCommands } from './areas/cluster/commands.ts'
import { credentialsCommands } from './areas/credentials/commands.ts'
import { deployCommands } from './areas/deploy/commands.ts'
import { edgeCommands } from './areas/edge/commands.ts'
import { observeCommands } from './areas/observe/commands.ts'
import { overviewCommands } from './areas/overview/commands.ts'
import { storageCommands } from './areas/storage/commands.ts'
import { tenancyCommands } from './areas/tenancy/commands.ts'
import { quotaNames } from './areas/tenancy/products/registry.ts'
import { compose, prepareDatabase } from './compose.ts'
import { loadConfig } from './config.ts'

type Composed = Awaited<ReturnType<typeof compose>>['deps']
type Opened = Composed['opened']

/** Gives the commands of an area its deps. */
const on = <Name extends keyof Opened>(
  name: Name,
  commands: readonly Command<Opened[Name]['deps']>[],
): Command<Composed>[] =>
  commands.map((command) => ({ ...command, run: ({ opened }, args) => command.run(opened[name].deps, args) }))

const reencryptCommand: Command<Composed> = {
  name: 'keys reencrypt',
  usage: 'keys reencrypt',
  summary: 'seal everything that is sealed under the first of MASTER_KEYS',
  wordCount: 0,
  async run({ core, areas }) {
    const details: Record<string, number> = {}
    for (const { name, reseal } of areas.flatMap(({ sealed }) => sealed)) details[name] = await reseal()
    const event = { actor: 'operator', action: 'keys.reencrypted', subject: 'key:all', details } as const
    await recordAudit(core.db, core.now(), event)
    return { json: details }
  },
}

/** The command line of the service, as a function: runs a command and returns its exit code. */
export const runCommandLine = (call: Call): Promise<number> =>
  runCli(
    {
      name: 'api',
      commands: [
        ...on('tenancy', tenancyCommands),
        ...on('storage', storageCommands),
        ...on('credentials', credentialsCommands),
        reencryptCommand,
        ...on('ai', aiCommands),
        ...on('cluster', clusterCommands),
        ...on('deploy', deployCommands),
        ...on('observe', observeCommands),
        ...on('edge', edgeCommands),
        ...on('overview', overviewCommands),
        ...on('core', [auditCommand]),
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
