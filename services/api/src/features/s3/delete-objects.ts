import { NotFound } from '@platform/errors/api-error'
import { S3Error } from '@platform/errors/s3-error'
import { bareEtag } from '../storage/conditions.ts'
import { findObject } from '../storage/read-object.ts'
import { trashObject, trashObjects } from '../storage/trash.ts'
import { checkWriteCondition } from './check-conditions.ts'
import { checkKey } from './raw-target.ts'
import { readSmallBody } from './read-small-body.ts'
import { childText, readXml, type XmlNode } from './read-xml.ts'
import { refuseHeaders } from './refuse-headers.ts'
import { type BucketCall, type KeyedCall, type S3Reply, xmlReply } from './s3-call.ts'
import { s3Failure } from './s3-failure.ts'
import { writeXml, type XmlElements } from './write-xml.ts'

const KEYS_MAX = 1_000
/** Twelve elements a key, which is more than there are. */
const ELEMENTS_MAX = KEYS_MAX * 12
/** A thousand keys of 1,024 bytes, each of them a reference. */
const BODY_BYTES_MAX = 8 * 1_024 ** 2

/**
 * Sends the object of a key to the trash if it still is the one that was meant.
 * Throws PreconditionFailed; NoSuchKey where there is none.
 */
async function trashMatching({ deps, bucket }: BucketCall, key: string, ifMatch: string): Promise<void> {
  const present = await findObject(deps, bucket.id, key)
  checkWriteCondition({ ifMatch }, present)
  try {
    if (present) await trashObject(deps, bucket.id, present.id)
  } catch (error) {
    // Replaced or deleted since it was looked at.
    throw error instanceof NotFound ? s3Failure('PreconditionFailed') : error
  }
}

/** DeleteObject: to the trash (D37). A key that is not there is as good as deleted. */
export async function deleteObject(call: KeyedCall): Promise<S3Reply> {
  const { deps, bucket, key, headers } = call
  refuseHeaders(headers, bucket.visibility)
  const ifMatch = headers.get('if-match')
  if (ifMatch === undefined) await trashObjects(deps, bucket.id, [key])
  else await trashMatching(call, key, bareEtag(ifMatch))
  return { status: 204 }
}

interface Wanted {
  key: string
  ifMatch: string | undefined
}

/** What the document says of one object, or why it cannot be deleted. */
function readWanted(node: XmlNode): Wanted | { key: string; failure: S3Error } {
  // White space is a part of a key like any other character.
  const key = node.children.find(({ name }) => name === 'Key')?.text
  if (node.name !== 'Object' || key === undefined || key === '') throw s3Failure('MalformedXML')
  const version = childText(node, 'VersionId')
  if (version !== undefined && version !== '' && version !== 'null') return { key, failure: s3Failure('NoSuchVersion') }
  try {
    checkKey(key)
  } catch (error) {
    if (error instanceof S3Error) return { key, failure: error }
    throw error
  }
  const etag = childText(node, 'ETag')
  return { key, ifMatch: etag === undefined ? undefined : bareEtag(etag) }
}

/**
 * DeleteObjects: up to 1,000 keys go to the trash in one statement; those with an ETag one by one.
 * Throws MalformedXML for none or more.
 */
export async function deleteObjects(call: BucketCall): Promise<S3Reply> {
  const { deps, bucket } = call
  const root = readXml(await readSmallBody(call, BODY_BYTES_MAX), 'Delete', ELEMENTS_MAX)
  const isQuiet = childText(root, 'Quiet')?.toLowerCase() === 'true'
  const nodes = root.children.filter(({ name }) => name !== 'Quiet')
  if (nodes.length === 0 || nodes.length > KEYS_MAX)
    throw s3Failure('MalformedXML', `The document must hold 1 to ${KEYS_MAX} objects`)
  const wanted = nodes.map(readWanted)

  const plain = wanted.flatMap((one) => ('failure' in one || one.ifMatch !== undefined ? [] : [one.key]))
  if (plain.length > 0) await trashObjects(deps, bucket.id, plain)
  const deleted: XmlElements[] = []
  const failed: XmlElements[] = []
  for (const one of wanted) {
    try {
      if ('failure' in one) throw one.failure
      if (one.ifMatch !== undefined) await trashMatching(call, one.key, one.ifMatch)
      deleted.push({ Key: one.key })
    } catch (error) {
      if (!(error instanceof S3Error)) throw error
      failed.push({ Key: one.key, Code: error.code, Message: error.message })
    }
  }
  return xmlReply(writeXml('DeleteResult', { Deleted: isQuiet ? [] : deleted, Error: failed }))
}
