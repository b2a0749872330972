import { ALL_USERS } from '@platform/s3-protocol/wire/read-acl'
import { XML_DECLARATION, xmlText } from '@platform/s3-protocol/wire/write-xml'
import { type BucketCall, type S3Reply, xmlReply } from '../s3-call.ts'

const grant = (type: string, grantee: string, permission: string): string =>
  `<Grant><Grantee xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="${type}">${grantee}</Grantee><Permission>${permission}</Permission></Grant>`

/** GetBucketAcl and GetObjectAcl: the owner has full control; anyone may read a public bucket. */
export async function getAcl({ bucket }: BucketCall): Promise<S3Reply> {
  const id = xmlText(bucket.applicationId)
  const owner = `<ID>${id}</ID><DisplayName>${id}</DisplayName>`
  const anyone = `<URI>${ALL_USERS}</URI>`
  const grants = [
    grant('CanonicalUser', owner, 'FULL_CONTROL'),
    ...(bucket.visibility === 'public' ? [grant('Group', anyone, 'READ')] : []),
  ]
  return xmlReply(
    `${XML_DECLARATION}<AccessControlPolicy xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Owner>${owner}</Owner><AccessControlList>${grants.join('')}</AccessControlList></AccessControlPolicy>`,
  )
}
