import type { Deps } from '../../deps.ts'
import type { Endpoint } from '../../http/endpoint.ts'
import { objectEndpoints } from './objects/routes.ts'
import { uploadEndpoints } from './uploads/routes.ts'

export const storageEndpoints: readonly Endpoint<Deps>[] = [...objectEndpoints, ...uploadEndpoints]
