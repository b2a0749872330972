import { z } from '@hono/zod-openapi'
import { BadRequest } from '@platform/errors/api-error'
import { endpoint } from '../deps.ts'
import { instant, pathId, shown, text } from '../../../http/fields.ts'
import { reachDeployment } from '../../deploy/deployments/reach.ts'
import { inspectImageCache, purgeImageCache } from './image-cache.ts'
import { ImageRefusal } from './image-refusal.ts'
import { type ImageSource, readImageSource, SOURCE_BYTES_MAX } from './image-request.ts'

const tag = 'Deployments'
const spec = 'A §4 Deployments, D24, D88'

const amount = z.number().int().min(0)
const ImageCache = z
  .object({
    enabled: z.boolean().openapi({ description: 'Whether the deployment optimizes images.' }),
    deploymentTag: shown('images:0199a3f0-5b7c-7cc0-9d3f-2f6f5c1b7a10'),
    sourceTag: shown('images:0199a3f0-5b7c-7cc0-9d3f-2f6f5c1b7a10:mZk4pR0bJ5sQ0xV7cYtE2w')
      .nullable()
      .openapi({ description: 'null if no `source` was sent.' }),
    policy: z.object({
      organizationBytesMax: amount.openapi({
        description: 'Space for the images of all deployments of the organization.',
        example: 268_435_456,
      }),
      minimumCacheSeconds: amount.openapi({
        description: 'Minimum time before a source is fetched again. Files of the deployment are never fetched again.',
        example: 60,
      }),
      eviction: z.literal('least-recently-used'),
    }),
    totalBytes: amount.openapi({ example: 184_320 }),
    entries: z.array(
      z.object({
        source: shown('/cats/tabby.jpg'),
        variants: amount.openapi({ example: 4 }),
        bytes: amount.openapi({ example: 184_320 }),
        lastUsedAt: instant.openapi({ description: 'Accurate to an hour.' }),
      }),
    ),
  })
  .openapi('ImageCache')

const query = z.object({
  source: text(SOURCE_BYTES_MAX).optional().openapi({
    description: 'The path or URL of the source image, as requests name it.',
    example: '/cats/tabby.jpg',
  }),
})

/** The source named by a request. Throws BadRequest if it cannot be one. */
function sourceOf(source: string | undefined): ImageSource | undefined {
  try {
    return source === undefined ? undefined : readImageSource(source)
  } catch (error) {
    if (error instanceof ImageRefusal) throw new BadRequest(error.message)
    throw error
  }
}

export const imageEndpoints = [
  endpoint({
    operation: 'inspectImageCache',
    on: 'GET /deployments/{id}/image-cache',
    spec,
    tag,
    summary: 'Get the image cache',
    description:
      'Optimized images by source: the 1,000 sources that take the most space, largest first. `totalBytes` counts all of them.',
    actor: 'any',
    scope: 'network:deployments:read',
    params: { id: pathId('Deployment') },
    query,
    reach: (call) => reachDeployment(call, call.params.id),
    returns: [200, ImageCache],
    fails: [400],
    handle: ({ deps, target, query: { source } }) => inspectImageCache(deps, target, sourceOf(source)),
  }),
  endpoint({
    operation: 'purgeImageCache',
    on: 'DELETE /deployments/{id}/image-cache',
    spec,
    tag,
    summary: 'Purge the image cache',
    description:
      'Deletes the optimized images of one source, or all of them without `source`. They are made again on the next request; images in the making are discarded. Other edges follow within a second. Browsers keep their copies until those expire.',
    actor: 'any',
    scope: 'network:deployments:write',
    params: { id: pathId('Deployment') },
    query,
    reach: (call) => reachDeployment(call, call.params.id),
    returns: [200, z.object({ purged: z.literal(true), tag: ImageCache.shape.deploymentTag }).openapi('ImagePurge')],
    fails: [400],
    handle: ({ deps, target, query: { source } }) => purgeImageCache(deps, target, sourceOf(source)),
  }),
]
