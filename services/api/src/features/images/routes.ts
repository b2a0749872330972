import { z } from '@hono/zod-openapi'
import { BadRequest } from '@platform/errors/api-error'
import { endpoint } from '../../http/endpoint.ts'
import { instant, pathId, shown, text } from '../../http/fields.ts'
import { reachDeployment } from '../deployments/reach.ts'
import { inspectImageCache, purgeImageCache } from './image-cache.ts'
import { ImageRefusal } from './image-refusal.ts'
import { type ImageSource, readImageSource, SOURCE_BYTES_MAX } from './image-request.ts'

const tag = 'Deployments'
const spec = 'A §4 Deployments, D24, D88'

const amount = z.number().int().min(0)
const ImageCache = z
  .object({
    enabled: z.boolean().openapi({ description: 'Whether the deployment answers requests for images.' }),
    deploymentTag: shown('images:0199a3f0-5b7c-7cc0-9d3f-2f6f5c1b7a10'),
    sourceTag: shown('images:0199a3f0-5b7c-7cc0-9d3f-2f6f5c1b7a10:mZk4pR0bJ5sQ0xV7cYtE2w')
      .nullable()
      .openapi({ description: 'null without `source`.' }),
    policy: z.object({
      organizationBytesMax: amount.openapi({
        description: 'What the images of all deployments of the organization may take.',
        example: 268_435_456,
      }),
      minimumCacheSeconds: amount.openapi({
        description: 'The shortest time before a source is asked again. Files of a deployment are never asked again.',
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
        lastUsedAt: instant.openapi({ description: 'To within an hour.' }),
      }),
    ),
  })
  .openapi('ImageCache')

const query = z.object({
  source: text(SOURCE_BYTES_MAX).optional().openapi({
    description: 'A path of the deployment, or an address elsewhere, as the image was asked for.',
    example: '/cats/tabby.jpg',
  }),
})

/** The source that a request names. Throws BadRequest for what can be none. */
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
    summary: 'Inspect the image cache of a deployment',
    description:
      'The images that were made, by source: the 1,000 sources that take the most space, the largest first. `totalBytes` counts all.',
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
    summary: 'Purge the image cache of a deployment',
    description:
      'Removes the images of one source, or of all without `source`. They are made anew at the next request; one that is being made at this moment is not kept. Other edges follow within a second. Copies in browsers stay until their time is over.',
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
