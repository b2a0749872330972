import { recordAudit } from '@platform/service/audit'
import type { Command } from '@platform/service/cli'
import type { CredentialsDeps } from './deps.ts'

export const credentialsCommands: readonly Command<CredentialsDeps>[] = [
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
]
