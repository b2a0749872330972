import type { Bucket } from '../objects/buckets.ts'

/** The owner of a bucket and its objects: the application. */
export const ownerOf = ({ applicationId }: Pick<Bucket, 'applicationId'>) => ({
  ID: applicationId,
  DisplayName: applicationId,
})
