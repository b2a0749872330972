import { z } from '@hono/zod-openapi'
import { type PathParam, pathId } from '../../../http/fields.ts'
import type { ReachedBucket } from './reach.ts'

/** What routes below a bucket share: their paths and parameters. */

/** Paths with the environment as a segment; the documented form. */
export const nested = '/applications/{applicationId}/environments/{environment}' as const
/** Paths with the environment in the query. */
export const flat = '/applications/{applicationId}/storage/buckets' as const

/** Text that cannot name a bucket or environment is a 404, like a missing one (D16). */
const reference = (resource: string, description: string): PathParam => ({
  schema: z
    .string()
    .regex(/^[A-Za-z0-9-]{1,64}$/)
    .openapi({ description, example: resource === 'Bucket' ? 'media' : 'production' }),
  resource,
})
export const inEnvironment = {
  applicationId: pathId('Application'),
  environment: {
    ...reference('Environment', 'The slug or UUID of the environment.'),
    orQuery: 'environment',
  },
}
export const ofBucket = { ...inEnvironment, bucket: reference('Bucket', 'The name of the bucket.') }

/** Response headers: naming a bucket by its UUID still works, but is deprecated (A §2, D39). */
export const deprecation = ({ isNamedById }: Pick<ReachedBucket, 'isNamedById'>): Record<string, string> =>
  isNamedById ? { deprecation: '@1767225600' } : {}

/** A digest in hex; null if unknown. */
export const hex = (bytes: Buffer | null): string | null => bytes?.toString('hex') ?? null
