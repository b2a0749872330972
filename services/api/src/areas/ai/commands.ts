import type { Command } from '@platform/service/cli'
import type { AiDeps } from './deps.ts'
import { findCatalogWarnings } from './gateway/holds/budget-warnings.ts'
import { checkProviders } from './gateway/providers/check-providers.ts'

export const aiCommands: readonly Command<AiDeps>[] = [
  {
    name: 'ai check',
    usage: 'ai check [--live]',
    summary:
      'say what the file of AI_PROVIDERS offers, which keys are there, what is priced and what budgets would refuse; --live sends one small chat along each chat route that has a key',
    wordCount: 0,
    options: { live: 'switch' },
    async run(deps, args) {
      // An invalid file has already ended the program, with the reason.
      const routes = await checkProviders(deps, { isLive: args.isSet('live') })
      const warnings = await findCatalogWarnings(deps)
      return { json: { ok: routes.every(({ error }) => error === null), routes, warnings } }
    },
  },
]
