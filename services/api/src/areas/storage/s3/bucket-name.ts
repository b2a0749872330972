import { isLowerCaseUuid } from '@platform/runtime/is-uuid'
import { isBucketName } from '@platform/s3-protocol/wire/bucket-name'
import { s3Failure } from '@platform/s3-protocol/wire/s3-failure'
import type { EnvironmentSlug } from '../../tenancy/applications/table.ts'

export interface BucketName {
  environment: EnvironmentSlug
  name: string
}

/**
 * Parses the name that S3 clients use: the plain name is a bucket of production, `preview.name` one of preview (D34). Throws
 * InvalidBucketName for a name that no bucket can have.
 */
export function readBucketName(text: string): BucketName {
  const dot = text.indexOf('.')
  const environment = dot < 0 ? 'production' : text.slice(0, dot)
  const name = text.slice(dot + 1)
  // The REST API would read a UUID as an id instead of a name (D39).
  if ((environment !== 'production' && environment !== 'preview') || !isBucketName(name) || isLowerCaseUuid(name))
    throw s3Failure('InvalidBucketName', undefined, { BucketName: text.slice(0, 255) })
  return { environment, name }
}

/** Formats a bucket's name for `readBucketName`; lists always use this form (D34). */
export const writeBucketName = ({ environment, name }: BucketName): string =>
  environment === 'production' ? name : `${environment}.${name}`
