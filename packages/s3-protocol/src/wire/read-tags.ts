import { headerText } from './raw-headers.ts'
import { childText, readXml } from './read-xml.ts'
import { s3Failure } from './s3-failure.ts'

/** Maximum tags of an object (S3 API PutObjectTagging) and of a bucket (PutBucketTagging). */
const OBJECT_TAGS_MAX = 10
const BUCKET_TAGS_MAX = 50
const KEY_LENGTH_MAX = 128
const VALUE_LENGTH_MAX = 256

export type Tag = readonly [key: string, value: string]

/** Throws InvalidTag for too many tags, a repeated key, and a tag that is too long. */
function collectTags(pairs: Iterable<Tag>, of: 'Object' | 'Bucket'): Tag[] {
  const countMax = of === 'Object' ? OBJECT_TAGS_MAX : BUCKET_TAGS_MAX
  const tags = new Map<string, string>()
  for (const [key, value] of pairs) {
    if (key === '' || key.length > KEY_LENGTH_MAX || value.length > VALUE_LENGTH_MAX || /\0/.test(key + value))
      throw s3Failure('InvalidTag', 'A tag has a key of 1 to 128 characters and a value of at most 256')
    if (tags.has(key)) throw s3Failure('InvalidTag', 'Cannot provide multiple Tags with the same key')
    tags.set(key, value)
  }
  if (tags.size > countMax) throw s3Failure('InvalidTag', `${of} tags cannot be greater than ${countMax}`)
  return [...tags]
}

/** Reads x-amz-tagging: pairs in query format. Returns them in that order. Throws InvalidTag. */
export function readTagHeader(header: string | undefined): Tag[] {
  if (header === undefined || header === '') return []
  return collectTags(new URLSearchParams(headerText(header)), 'Object')
}

/** Reads the Tagging document of an object or a bucket. Returns its tags in order. Throws MalformedXML, InvalidTag. */
export function readTagDocument(body: Buffer, of: 'Object' | 'Bucket'): Tag[] {
  const root = readXml(body, 'Tagging', 200)
  const set = root.children.find(({ name }) => name === 'TagSet')
  if (!set) throw s3Failure('MalformedXML')
  return collectTags(
    set.children.map((tag): Tag => {
      const key = childText(tag, 'Key')
      const value = childText(tag, 'Value')
      if (tag.name !== 'Tag' || key === undefined || value === undefined) throw s3Failure('MalformedXML')
      return [key, value]
    }),
    of,
  )
}
