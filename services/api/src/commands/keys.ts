import { recordAudit } from '@platform/service/audit'
import type { Command } from '@platform/service/cli'
import type { Deps } from '../deps.ts'
import { resealProviderKeys } from '../areas/ai/governance/provider-keys.ts'
import { resealSigningStates } from '../areas/credentials/api-keys/api-keys.ts'
import { resealDeploymentVariables } from '../areas/deploy/deployments/variables.ts'
import { resealVariables } from '../areas/tenancy/env-vars/env-vars.ts'

export const keyCommands: readonly Command<Deps>[] = [
  {
    name: 'keys list',
    usage: 'keys list',
    summary: 'the signing keys',
    wordCount: 0,
    run: async ({ keySet }) => ({ json: keySet.jwks() }),
  },
  {
    name: 'keys rotate',
    usage: 'keys rotate',
    summary:
      'a new signing key, for one that leaked: within 2 seconds every process signs with it and refuses the tokens of the others',
    wordCount: 0,
    async run({ keySet, now }) {
      const note = 'Within 2 seconds every process signs with this key and refuses the tokens of the others.'
      const kid = await keySet.rotateNow((tx, id) =>
        recordAudit(tx, now(), { actor: 'operator', action: 'key.rotated', subject: `key:${id}` }),
      )
      return { json: { kid, note } }
    },
  },
  {
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
  },
]
