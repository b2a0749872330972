import { writeXml } from '@platform/s3-protocol/wire/write-xml'
import { quotedEtag } from '@platform/service/entity-tag'
import type { StoredObject } from '../objects/commit-object.ts'

/** The elements of CopyObjectResult and CopyPartResult. */
export const copyResult = (root: string, made: Pick<StoredObject, 'etag' | 'uploadedAt' | 'checksum'>): string =>
  writeXml(root, {
    LastModified: made.uploadedAt,
    ETag: quotedEtag(made.etag),
    ...(made.checksum && {
      [`Checksum${made.checksum.algorithm}`]: made.checksum.value,
      ChecksumType: made.checksum.type,
    }),
  })
