import { checksumHeader } from '@platform/s3-protocol/body/checksum'
import { readPartNumber } from '@platform/s3-protocol/wire/part-number'
import { quotedEtag } from '@platform/service/entity-tag'
import { commitPart } from '../commit-part.ts'
import { getUpload } from '../multipart-upload.ts'
import { receiveObject } from '../receive-object.ts'
import { refuseHeaders } from '../refuse-headers.ts'
import type { KeyedCall, S3Reply } from '../s3-call.ts'

/** UploadPart. The upload is found before the client is asked for the body. Throws NoSuchUpload. */
export async function uploadPart(call: KeyedCall): Promise<S3Reply> {
  const { headers, target, bucket } = call
  const number = readPartNumber(target.query.get('partNumber') ?? '')
  refuseHeaders(headers, bucket.visibility)
  const upload = await getUpload(call)
  await using body = await receiveObject(call, upload.checksumAlgorithm ?? undefined)
  const { blobs, checksum } = body
  const etag = body.md5.toString('hex')
  await commitPart(call, { number, blobs, etag, checksum })
  body.keep()
  return {
    status: 200,
    headers: { etag: quotedEtag(etag), ...(checksum && { [checksumHeader(checksum.algorithm)]: checksum.value }) },
  }
}
