import type { Opened } from '../../area.ts'
import type { Config } from '../../config.ts'
import type { Core } from '../../core.ts'
import { resealSigningStates } from './api-keys/api-keys.ts'
import { requireLiveKey } from './api-keys/reach.ts'
import type { CredentialsDeps, CredentialsPorts } from './deps.ts'
import { credentialsEndpoints } from './endpoints.ts'

export function openCredentials(
  core: Core,
  config: Pick<Config, 'CONSOLE_CLIENT_IDS'>,
): Opened<CredentialsDeps, CredentialsPorts> {
  return {
    deps: { ...core, consoleClientIds: new Set(config.CONSOLE_CLIENT_IDS) },
    endpoints: credentialsEndpoints,
    ports: { requireLiveKey: (keyId) => requireLiveKey(core, keyId) },
    sealed: [{ name: 'apiKeys', reseal: resealSigningStates }],
  }
}
