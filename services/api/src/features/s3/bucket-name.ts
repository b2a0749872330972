import { isBucketName } from '@platform/s3-protocol/wire/bucket-name'
import { s3Failure } from '@platform/s3-protocol/wire/s3-failure'
import type { EnvironmentSlug } from '../applications/table.ts'

/** What REST would read as an id (D39). */
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

export interface BucketName {
  environment: EnvironmentSlug
  name: string
}

/**
 * A bucket as S3 clients name it: the plain name is one of production, `preview.name` one of preview (D34).
 * Throws InvalidBucketName for what no bucket can be called.
 */
export function readBucketName(text: string): BucketName {
  const dot = text.indexOf('.')
  const environment = dot < 0 ? 'production' : text.slice(0, dot)
  const name = text.slice(dot + 1)
  if ((environment !== 'production' && environment !== 'preview') || !isBucketName(name) || UUID.test(name))
    throw s3Failure('InvalidBucketName', undefined, { BucketName: text.slice(0, 255) })
  return { environment, name }
}

/** The one way in which lists write it (D34). */
export const writeBucketName = ({ environment, name }: BucketName): string =>
  environment === 'production' ? name : `${environment}.${name}`
