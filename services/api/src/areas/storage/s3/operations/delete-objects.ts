import { S3Error } from '@platform/errors/s3-error'
import { type DeleteCondition, readDeleteCondition } from '@platform/s3-protocol/wire/check-conditions'
import { checkKey } from '@platform/s3-protocol/wire/raw-target'
import { childText, readXml, type XmlNode } from '@platform/s3-protocol/wire/read-xml'
import { s3Failure } from '@platform/s3-protocol/wire/s3-failure'
import { writeXml, type XmlElements } from '@platform/s3-protocol/wire/write-xml'
import { trashObjects } from '../../objects/trash.ts'
import { readSmallBody } from '../read-small-body.ts'
import { type BucketCall, type S3Reply, xmlReply } from '../s3-call.ts'
import { trashMatching } from '../trash-matching.ts'

const KEYS_MAX = 1_000
/** Twelve elements per key; S3 defines five. */
const ELEMENTS_MAX = KEYS_MAX * 12
/** A thousand keys of 1,024 bytes, with each byte written as a character reference. */
const BODY_BYTES_MAX = 8 * 1_024 ** 2

/** The elements of an object in the document, each at most once. */
const ELEMENTS = ['Key', 'VersionId', 'ETag', 'LastModifiedTime', 'Size']

interface Wanted {
  key: string
  condition: DeleteCondition | undefined
}

/** Reads an object of the document, or the reason why it cannot be deleted. Throws MalformedXML, InvalidArgument. */
function readWanted(node: XmlNode): Wanted | { key: string; failure: S3Error } {
  // Not trimmed: white space is part of a key.
  const key = node.children.find(({ name }) => name === 'Key')?.text
  const names = node.children.map(({ name }) => name)
  // An unknown or repeated element could be a condition that would be ignored.
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
 * DeleteObjects: moves up to 1,000 keys to the trash in one statement, and keys with conditions one by one. Throws MalformedXML
 * for no keys or more than 1,000, InvalidArgument for an invalid condition.
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
