import { s3Failure } from './s3-failure.ts'
import { uriEncode } from './uri-encode.ts'

/** A number of things a page may hold: `most` unless fewer are asked for. Throws InvalidArgument for what is no number. */
export function readCount(text: string | undefined, name: string, most: number): number {
  if (text === undefined || text === '') return most
  if (!/^\d{1,10}$/.test(text)) throw s3Failure('InvalidArgument', `${name} must be a number from 0 to 2147483647`)
  return Math.min(Number(text), most)
}

/** How a list writes keys: as they are, or as a URL does, for those that XML cannot carry (`encoding-type=url`). */
export interface KeyEncoding {
  /** As the list names it; undefined: keys are written as they are. */
  name: 'url' | undefined
  write: (text: string) => string
}

/** Slashes stay what they are, as S3 leaves them. */
const asUrl = (text: string): string => uriEncode(text).replaceAll('%2F', '/')

/** Throws InvalidArgument for another encoding. */
export function readEncoding(text: string | undefined): KeyEncoding {
  if (text === undefined || text === '') return { name: undefined, write: (key) => key }
  if (text !== 'url') throw s3Failure('InvalidArgument', 'Invalid Encoding Method specified in Request')
  return { name: 'url', write: asUrl }
}
