import { writeXml } from '@platform/s3-protocol/wire/write-xml'

/** The Tagging document of an object or a bucket. */
export const writeTags = (tags: Readonly<Record<string, string>>): string =>
  writeXml('Tagging', { TagSet: { Tag: Object.entries(tags).map(([Key, Value]) => ({ Key, Value })) } })
