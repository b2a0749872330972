import type { CredentialsDeps } from './deps.ts'
import type { Endpoint } from '../../http/endpoint.ts'
import { apiKeyEndpoints } from './api-keys/routes.ts'
import { tokenEndpoints } from './tokens/routes.ts'
import { wellKnownEndpoints } from './well-known/routes.ts'

export const credentialsEndpoints: readonly Endpoint<CredentialsDeps>[] = [
  ...apiKeyEndpoints,
  ...tokenEndpoints,
  ...wellKnownEndpoints,
]
