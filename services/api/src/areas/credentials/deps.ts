import type { Core } from '../../core.ts'
import { endpointsOf } from '../../http/endpoints-of.ts'

export interface CredentialsDeps extends Core {
  /** OAuth clients that count as the console (D6). */
  consoleClientIds: ReadonlySet<string>
}

export type CredentialsPorts = Pick<Core, 'requireLiveKey'>

export const { endpoint, openEndpoint } = endpointsOf<CredentialsDeps>()
