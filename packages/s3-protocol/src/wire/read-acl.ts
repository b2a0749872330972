import { childText, readXml } from './read-xml.ts'
import { s3Failure } from './s3-failure.ts'

/** One grant of an access control policy. */
export interface Grant {
  /** An owner's id, or the URI of a group. */
  grantee: { id: string } | { uri: string }
  permission: string
}

/** Far more than needed: a bucket has an owner and perhaps the public; S3 allows 100 grants. */
const ELEMENTS_MAX = 1_000

/** The group of everyone (S3 API "Access control list overview"). */
export const ALL_USERS = 'http://acs.amazonaws.com/groups/global/AllUsers'

/** Reads the grants of an AccessControlPolicy. Throws MalformedACLError. */
export function readAclDocument(body: Buffer): Grant[] {
  const root = tryReadXml(body)
  const list = root.children.find(({ name }) => name === 'AccessControlList')
  if (!list) throw s3Failure('MalformedACLError')
  return list.children.map((grant): Grant => {
    const grantee = grant.children.find(({ name }) => name === 'Grantee')
    const permission = childText(grant, 'Permission')
    if (grant.name !== 'Grant' || !grantee || permission === undefined) throw s3Failure('MalformedACLError')
    const id = childText(grantee, 'ID')
    const uri = childText(grantee, 'URI')
    if (id !== undefined) return { grantee: { id }, permission }
    if (uri !== undefined) return { grantee: { uri }, permission }
    throw s3Failure('MalformedACLError')
  })
}

function tryReadXml(body: Buffer) {
  try {
    return readXml(body, 'AccessControlPolicy', ELEMENTS_MAX)
  } catch {
    throw s3Failure('MalformedACLError')
  }
}
