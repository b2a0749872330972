import type { StorageDeps } from './deps.ts'
import type { Endpoint } from '../../http/endpoint.ts'
import { objectEndpoints } from './objects/routes.ts'
import { uploadEndpoints } from './uploads/routes.ts'

export const storageEndpoints: readonly Endpoint<StorageDeps>[] = [...objectEndpoints, ...uploadEndpoints]
