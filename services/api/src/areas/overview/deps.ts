import type { Core } from '../../core.ts'
import type { EncodedContent } from '../../http/encoded-content.ts'
import { endpointsOf } from '../../http/endpoints-of.ts'
import type { StoragePorts } from '../storage/deps.ts'

export interface OverviewDeps extends Core, Pick<StoragePorts, 'objectsDomain'> {
  /** The OpenAPI document, as JSON. */
  document: EncodedContent
  /** The OAuth client for signing in at /docs; undefined: people paste a token. */
  docsClientId: string | undefined
  /** The folder of the clients that can be downloaded; undefined: none can. */
  clientsFolder: string | undefined
  /** The origin of the web console; undefined: there is none. */
  consoleUrl: string | undefined
}

export const { endpoint, openEndpoint } = endpointsOf<OverviewDeps>()
