import { and, eq, isNull } from 'drizzle-orm'
import { objects } from '../storage/table.ts'
import { headerText } from './raw-headers.ts'
import { readSmallBody } from './read-small-body.ts'
import { childText, readXml } from './read-xml.ts'
import { type KeyedCall, type ObjectCall, type S3Reply, xmlReply } from './s3-call.ts'
import { s3Failure } from './s3-failure.ts'
import { writeXml } from './write-xml.ts'

const TAGS_MAX = 10
const KEY_LENGTH_MAX = 128
const VALUE_LENGTH_MAX = 256
const BODY_BYTES_MAX = 64 * 1_024

/** Throws InvalidTag for more than ten, a name that comes twice, and what is too long (S3 API PutObjectTagging). */
export function collectTags(pairs: Iterable<readonly [key: string, value: string]>): Record<string, string> {
  const tags = new Map<string, string>()
  for (const [key, value] of pairs) {
    if (key === '' || key.length > KEY_LENGTH_MAX || value.length > VALUE_LENGTH_MAX || /\0/.test(key + value))
      throw s3Failure('InvalidTag', 'A tag has a key of 1 to 128 characters and a value of at most 256')
    if (tags.has(key)) throw s3Failure('InvalidTag', 'Cannot provide multiple Tags with the same key')
    tags.set(key, value)
  }
  if (tags.size > TAGS_MAX) throw s3Failure('InvalidTag', 'Object tags cannot be greater than 10')
  return Object.fromEntries(tags)
}

/** Reads x-amz-tagging: pairs as a query writes them. Throws InvalidArgument, InvalidTag. */
export function readTagHeader(header: string | undefined): Record<string, string> {
  if (header === undefined || header === '') return {}
  return collectTags(new URLSearchParams(headerText(header)))
}

/** Reads a Tagging document. Throws MalformedXML, InvalidTag. */
export function readTagDocument(body: Buffer): Record<string, string> {
  const root = readXml(body, 'Tagging', 200)
  const set = root.children.find(({ name }) => name === 'TagSet')
  if (!set) throw s3Failure('MalformedXML')
  return collectTags(
    set.children.map((tag): [string, string] => {
      const key = childText(tag, 'Key')
      const value = childText(tag, 'Value')
      if (tag.name !== 'Tag' || key === undefined || value === undefined) throw s3Failure('MalformedXML')
      return [key, value]
    }),
  )
}

/** GetObjectTagging. */
export const getObjectTagging = async ({ found }: ObjectCall): Promise<S3Reply> =>
  xmlReply(
    writeXml('Tagging', {
      TagSet: { Tag: Object.entries(found.object.tags).map(([Key, Value]) => ({ Key, Value })) },
    }),
  )

async function setTags({ deps, bucket, key }: KeyedCall, tags: Record<string, string>): Promise<void> {
  const changed = await deps.db
    .update(objects)
    .set({ tags, updatedAt: deps.now() })
    .where(and(eq(objects.bucketId, bucket.id), eq(objects.key, key), isNull(objects.deletedAt)))
    .returning({ id: objects.id })
  if (changed.length === 0) throw s3Failure('NoSuchKey', undefined, { Key: key })
}

/** PutObjectTagging: replaces the whole set. */
export async function putObjectTagging(call: KeyedCall): Promise<S3Reply> {
  await setTags(call, readTagDocument(await readSmallBody(call, BODY_BYTES_MAX)))
  return { status: 200 }
}

/** DeleteObjectTagging. */
export async function deleteObjectTagging(call: KeyedCall): Promise<S3Reply> {
  await setTags(call, {})
  return { status: 204 }
}
