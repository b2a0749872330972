import { s3Failure } from './s3-failure.ts'
import { uriEncode } from './uri-encode.ts'

/** Reads a page size: `most` unless the client asks for less. Throws InvalidArgument if it is not a number. */
export function readCount(text: string | undefined, name: string, most: number): number {
  if (text === undefined || text === '') return most
  if (!/^\d{1,10}$/.test(text)) throw s3Failure('InvalidArgument', `${name} must be a number from 0 to 2147483647`)
  return Math.min(Number(text), most)
}

/** How a list writes keys: unchanged, or percent-encoded, for keys that XML cannot carry (`encoding-type=url`). */
export interface KeyEncoding {
  /** The name in the document; undefined: keys are unchanged. */
  name: 'url' | undefined
  write: (text: string) => string
}

/** S3 leaves slashes unencoded. */
const asUrl = (text: string): string => uriEncode(text).replaceAll('%2F', '/')

/** Throws InvalidArgument for another encoding. */
export function readEncoding(text: string | undefined): KeyEncoding {
  if (text === undefined || text === '') return { name: undefined, write: (key) => key }
  if (text !== 'url') throw s3Failure('InvalidArgument', 'Invalid Encoding Method specified in Request')
  return { name: 'url', write: asUrl }
}
