import { readForm } from '@platform/s3-protocol/body/read-form'
import { readChecksumClaim, readMd5, readRequestBody } from '@platform/s3-protocol/body/read-request-body'
import { checkPolicy, readPolicy } from '@platform/s3-protocol/signature/post-policy'
import { checkKey, type RawTarget } from '@platform/s3-protocol/wire/raw-target'
import { readTagDocument } from '@platform/s3-protocol/wire/read-tags'
import { s3Failure } from '@platform/s3-protocol/wire/s3-failure'
import { writeXml } from '@platform/s3-protocol/wire/write-xml'
import { quotedEtag } from '@platform/service/entity-tag'
import type { StorageDeps } from '../../deps.ts'
import { bodyOf } from '../../../../http/raw-listener.ts'
import type { RawExchange } from '../../../../http/raw-listener.ts'
import type { StoredObject } from '../../objects/commit-object.ts'
import { authorizeForm } from '../authorize.ts'
import { applyCors } from '../cors.ts'
import { writeBucketName } from '../bucket-name.ts'
import { readDescription } from '../object-description.ts'
import { objectLocation } from '../object-location.ts'
import { contentOf, PUT_BYTES_MAX, receiveVerified } from '../receive-object.ts'
import { refuseHeaders } from '../refuse-headers.ts'
import { type S3Reply, xmlReply } from '../s3-call.ts'
import { madeHeaders, storeObject } from '../store-object.ts'

/** Answers as the form requests: with a redirect, or a chosen status (S3 API POST object). */
function answer(
  fields: ReadonlyMap<string, string>,
  made: { object: StoredObject; bucket: string; location: string },
): S3Reply {
  const { object, bucket, location } = made
  const headers = { ...madeHeaders(object), location }
  const redirect = fields.get('success_action_redirect') ?? fields.get('redirect')
  if (redirect !== undefined && URL.canParse(redirect) && /^https?:/i.test(redirect)) {
    const url = new URL(redirect)
    for (const [name, value] of [
      ['bucket', bucket],
      ['key', object.key],
      ['etag', quotedEtag(object.etag)],
    ] as const)
      url.searchParams.set(name, value)
    return { status: 303, headers: { ...headers, location: url.href } }
  }
  const status = fields.get('success_action_status')
  if (status === '201') {
    const document = { Location: location, Bucket: bucket, Key: object.key, ETag: quotedEtag(object.etag) }
    return { ...xmlReply(writeXml('PostResponse', document), headers), status: 201 }
  }
  return { status: status === '200' ? 200 : 204, headers }
}

/**
 * Substitutes `${filename}` in a key, before the policy is checked; of a path, only the part after the last slash (S3 API POST
 * object, "Condition matching").
 */
const withFileName = (key: string, fileName: string): string =>
  key.replaceAll('${filename}', () => fileName.replace(/^.*[/\\]/s, ''))

/**
 * PostObject: stores the file of a browser's form, which carries a signed policy. Reads and checks all fields before the file.
 *
 * Throws AccessDenied, EntityTooLarge, EntityTooSmall, InvalidArgument, MalformedPOSTRequest, and the errors of `putObject`.
 */
export async function postObject(
  exchange: RawExchange<StorageDeps>,
  target: RawTarget,
  formFields: ReadonlyMap<string, string>,
): Promise<S3Reply> {
  const { deps } = exchange
  const bucketText = target.bucket ?? ''
  const { fields, file } = await readForm(formFields.get('content-type') ?? '', bodyOf(exchange))
  const policy = fields.get('policy')
  if (policy === undefined) throw s3Failure('AccessDenied', 'The form must hold a policy')
  const conditions = readPolicy(policy)
  const { caller, bucket } = await authorizeForm(exchange, target, fields, policy)
  await applyCors(exchange, bucket)
  const named = fields.get('key')
  const name = named === undefined ? undefined : withFileName(named, file?.name ?? '')
  const judged = new Map([...fields, ['bucket', bucketText]])
  if (name !== undefined) judged.set('key', name)
  const range = checkPolicy(conditions, judged, deps.now())
  if (!file) throw s3Failure('InvalidArgument', 'POST requires exactly one file upload per request.')
  if (name === undefined || name === '') throw s3Failure('InvalidArgument', 'The form must hold a key')
  const key = checkKey(name)
  if (key.includes('\0')) throw s3Failure('InvalidArgument', 'The key holds a NUL')

  // Fields have the names and meanings of headers, with a few exceptions. Headers are latin1.
  const headers = new Map([...fields].map(([field, value]) => [field, Buffer.from(value).toString('latin1')]))
  const acl = fields.get('acl')
  if (acl !== undefined) headers.set('x-amz-acl', acl)
  if (!headers.has('content-type') && file.contentType !== undefined) headers.set('content-type', file.contentType)
  refuseHeaders(headers, bucket.visibility)
  const description = readDescription(headers)
  const tagging = fields.get('tagging')
  const tags = tagging === undefined ? [] : readTagDocument(Buffer.from(tagging), 'Object')

  const claim = {
    form: { kind: 'unsigned' as const },
    length: undefined,
    md5: readMd5(fields.get('content-md5')),
    checksum: readChecksumClaim(headers),
  }
  const call = { deps, exchange, target, headers, caller, bucket, payloadHash: 'UNSIGNED-PAYLOAD', seed: undefined }
  const body = await readRequestBody(within(file.bytes, Math.min(range.max, PUT_BYTES_MAX)), claim, undefined)
  await using received = await receiveVerified(call, body, undefined)
  if (received.length < range.min) throw s3Failure('EntityTooSmall', 'The file is smaller than the policy allows')
  const object = await storeObject(call, { key, ...description, tags, ...contentOf(received) })
  received.keep()
  const location = objectLocation(exchange, target, { bucket: bucketText, key })
  return answer(fields, { object, bucket: writeBucketName(bucket), location })
}

/** Throws EntityTooLarge as soon as more bytes arrive. */
async function* within(source: AsyncIterable<Buffer>, bytesMax: number): AsyncGenerator<Buffer> {
  let length = 0
  for await (const chunk of source) {
    length += chunk.length
    if (length > bytesMax) throw s3Failure('EntityTooLarge', 'The file is larger than the policy allows')
    yield chunk
  }
}
