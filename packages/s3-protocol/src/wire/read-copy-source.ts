import { checkKey, decodeOnce } from './raw-target.ts'
import { s3Failure } from './s3-failure.ts'

const malformed = () => s3Failure('InvalidArgument', 'x-amz-copy-source must be /bucket/key, as in a URL')

/** Reads x-amz-copy-source: decoded once, with `+` as a plus. Throws InvalidArgument, NoSuchVersion, KeyTooLongError. */
export function readCopySource(header: string): { bucket: string; key: string } {
  const [path = '', query] = header.split('?', 2)
  const version = query === undefined ? undefined : /^versionId=(.*)$/.exec(query)?.[1]
  if (query !== undefined && version === undefined) throw malformed()
  if (version !== undefined && version !== 'null') throw s3Failure('NoSuchVersion')
  const text = decodeOnce(path.startsWith('/') ? path.slice(1) : path, 'x-amz-copy-source')
  const slash = text.indexOf('/')
  if (slash < 1 || slash === text.length - 1) throw malformed()
  return { bucket: text.slice(0, slash), key: checkKey(text.slice(slash + 1)) }
}
