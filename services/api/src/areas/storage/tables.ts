export {
  blobCandidates,
  blobs,
  bucketCounts,
  buckets,
  objectBlobs,
  objects,
  storedBytes,
  uploadBlobs,
  uploads,
} from './objects/table.ts'
export { bucketConfigurations } from './s3/table.ts'
