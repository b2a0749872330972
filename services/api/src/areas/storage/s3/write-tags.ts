import type { Tag } from '@platform/s3-protocol/wire/read-tags'
import { writeXml } from '@platform/s3-protocol/wire/write-xml'
import type { StoredTags } from '../objects/table.ts'

/** The Tagging document of an object or a bucket, with the tags in their order. */
export function writeTags(tags: StoredTags): string {
  const pairs = Array.isArray(tags) ? (tags as readonly Tag[]) : Object.entries(tags)
  return writeXml('Tagging', { TagSet: { Tag: pairs.map(([Key, Value]) => ({ Key, Value })) } })
}
