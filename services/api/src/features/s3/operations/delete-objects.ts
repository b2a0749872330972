import { NotFound, Unavailable } from '@platform/errors/api-error'
import { S3Error } from '@platform/errors/s3-error'
import {
  checkDeleteCondition,
  type DeleteCondition,
  readDeleteCondition,
} from '@platform/s3-protocol/wire/check-conditions'
import { checkKey } from '@platform/s3-protocol/wire/raw-target'
import { childText, readXml, type XmlNode } from '@platform/s3-protocol/wire/read-xml'
import { s3Failure } from '@platform/s3-protocol/wire/s3-failure'
import { writeXml, type XmlElements } from '@platform/s3-protocol/wire/write-xml'
import { findObject } from '../../storage/read-object.ts'
import { trashObject, trashObjects } from '../../storage/trash.ts'
import { readSmallBody } from '../read-small-body.ts'
import { refuseHeaders } from '../refuse-headers.ts'
import { type BucketCall, type KeyedCall, type S3Reply, xmlReply } from '../s3-call.ts'

const KEYS_MAX = 1_000
/** Twelve elements a key, which is more than there are. */
const ELEMENTS_MAX = KEYS_MAX * 12
/** A thousand keys of 1,024 bytes, each of them a reference. */
const BODY_BYTES_MAX = 8 * 1_024 ** 2

/** How often a key may be written between a look at it and its deletion. */
const LOOKS_MAX = 100

/**
 * Sends the object of a key to the trash if it is the one that was meant. Length, ETag and time of an object never change,
 * so it is looked at first; the statement that deletes takes that one or none, and where it was replaced in between, its
 * successor is looked at.
 *
 * Throws PreconditionFailed; NoSuchKey where there is none.
 */
async function trashMatching({ deps, bucket }: BucketCall, key: string, condition: DeleteCondition): Promise<void> {
  for (let looks = 1; ; looks++) {
    const present = await findObject(deps, bucket.id, key)
    if (!present) throw s3Failure('NoSuchKey')
    checkDeleteCondition(condition, present)
    try {
      return await trashObject(deps, bucket.id, present.id)
    } catch (error) {
      if (!(error instanceof NotFound)) throw error
      if (looks === LOOKS_MAX) throw new Unavailable('Too many writers of one key; try again later', error)
    }
  }
}

const CONDITION_HEADERS = ['x-amz-if-match-size', 'x-amz-if-match-last-modified-time']
/** Conditions of a GET. A client that sends one with a deletion must not find it ignored. */
const READING_HEADERS = ['if-none-match', 'if-modified-since', 'if-unmodified-since']

/**
 * DeleteObject: to the trash (D37). A key that is not there is as good as deleted, unless there are conditions.
 * Throws PreconditionFailed, NoSuchKey, InvalidArgument, NotImplemented.
 */
export async function deleteObject(call: KeyedCall): Promise<S3Reply> {
  const { deps, bucket, key, headers } = call
  refuseHeaders(new Map([...headers].filter(([name]) => !CONDITION_HEADERS.includes(name))), bucket.visibility)
  const reading = READING_HEADERS.find((name) => headers.has(name))
  if (reading !== undefined) throw s3Failure('NotImplemented', `A deletion takes no ${reading}; use If-Match`)
  const [size, lastModified] = CONDITION_HEADERS.map((name) => headers.get(name))
  const condition = readDeleteCondition({ ifMatch: headers.get('if-match'), size, lastModified })
  if (condition) await trashMatching(call, key, condition)
  else await trashObjects(deps, bucket.id, [key])
  return { status: 204 }
}

/** What an object of the document may hold, each once. */
const ELEMENTS = ['Key', 'VersionId', 'ETag', 'LastModifiedTime', 'Size']

interface Wanted {
  key: string
  condition: DeleteCondition | undefined
}

/** What the document says of one object, or why it cannot be deleted. Throws MalformedXML, InvalidArgument. */
function readWanted(node: XmlNode): Wanted | { key: string; failure: S3Error } {
  // White space is a part of a key like any other character.
  const key = node.children.find(({ name }) => name === 'Key')?.text
  const names = node.children.map(({ name }) => name)
  // An element that is not understood, or comes twice, could be a condition that is then not met.
  const isUnclear = new Set(names).size < names.length || names.some((name) => !ELEMENTS.includes(name))
  if (node.name !== 'Object' || key === undefined || key === '' || isUnclear) throw s3Failure('MalformedXML')
  const condition = readDeleteCondition({
    ifMatch: childText(node, 'ETag'),
    size: childText(node, 'Size'),
    lastModified: childText(node, 'LastModifiedTime'),
  })
  const version = childText(node, 'VersionId')
  if (version !== undefined && version !== '' && version !== 'null') return { key, failure: s3Failure('NoSuchVersion') }
  try {
    checkKey(key)
  } catch (error) {
    if (error instanceof S3Error) return { key, failure: error }
    throw error
  }
  return { key, condition }
}

/**
 * DeleteObjects: up to 1,000 keys go to the trash in one statement; those with conditions one by one.
 * Throws MalformedXML for none or more, InvalidArgument for a condition that cannot be read.
 */
export async function deleteObjects(call: BucketCall): Promise<S3Reply> {
  const { deps, bucket } = call
  const root = readXml(await readSmallBody(call, BODY_BYTES_MAX), 'Delete', ELEMENTS_MAX)
  const isQuiet = childText(root, 'Quiet')?.toLowerCase() === 'true'
  const nodes = root.children.filter(({ name }) => name !== 'Quiet')
  if (nodes.length === 0 || nodes.length > KEYS_MAX)
    throw s3Failure('MalformedXML', `The document must hold 1 to ${KEYS_MAX} objects`)
  const wanted = nodes.map(readWanted)

  const plain = wanted.flatMap((one) => ('failure' in one || one.condition ? [] : [one.key]))
  if (plain.length > 0) await trashObjects(deps, bucket.id, plain)
  const deleted: XmlElements[] = []
  const failed: XmlElements[] = []
  for (const one of wanted) {
    try {
      if ('failure' in one) throw one.failure
      if (one.condition) await trashMatching(call, one.key, one.condition)
      deleted.push({ Key: one.key })
    } catch (error) {
      if (!(error instanceof S3Error)) throw error
      failed.push({ Key: one.key, Code: error.code, Message: error.message })
    }
  }
  return xmlReply(writeXml('DeleteResult', { Deleted: isQuiet ? [] : deleted, Error: failed }))
}
