import { BadRequest } from '@platform/errors/api-error'
import { CONTENT_TYPE, whyNoKey } from '../objects/object-key.ts'
import { tusError } from './errors.ts'

const NAMES_MAX = 50

/** Upload-Metadata: values by name. */
export type Metadata = ReadonlyMap<string, string>

/** Parses Upload-Metadata; empty if absent. Throws 400. */
export function readUploadMetadata(header: string | undefined): Metadata {
  const values = new Map<string, string>()
  if (header === undefined || header.trim() === '') return values
  // MUST be comma-separated pairs, name and value separated by a space; for an empty value the space MAY be omitted.
  const pairs = header.split(',').map((pair) => pair.trim().split(/ +/))
  if (pairs.length > NAMES_MAX) throw tusError('MalformedMetadata', 'Upload-Metadata names too much')
  for (const [name = '', encoded = '', ...rest] of pairs) {
    const bytes = Buffer.from(encoded, 'base64')
    // MUST be base64. Buffer skips invalid characters, so the result is compared with the input.
    const isBase64 = bytes.toString('base64').replace(/=+$/, '') === encoded.replace(/=+$/, '')
    // Names MUST NOT be empty or contain spaces or commas, SHOULD be ASCII, and MUST be unique.
    if (!/^[\x21-\x2b\x2d-\x7e]+$/.test(name) || rest.length > 0 || !isBase64 || values.has(name))
      throw tusError('MalformedMetadata')
    const value = bytes.toString('utf8')
    if (!Buffer.from(value).equals(bytes))
      throw tusError('MalformedMetadata', `Upload-Metadata ${name} is not valid UTF-8`)
    values.set(name, value)
  }
  return values
}

/** The object's key: `key`, or the file's name as sent by Uppy and tus-js-client. Throws 400. */
export function keyIn(metadata: Metadata): string {
  const key = metadata.get('key') ?? metadata.get('filename') ?? metadata.get('name') ?? ''
  const why = whyNoKey(key)
  if (why !== undefined) throw new BadRequest(why)
  return key
}

/** The media type of the object. Throws 400. */
export function contentTypeIn(metadata: Metadata): string | undefined {
  const type = metadata.get('contentType') ?? metadata.get('filetype') ?? metadata.get('type')
  if (type === undefined || type === '') return undefined // Uppy sends an empty one for a type that it does not know
  if (!CONTENT_TYPE.test(type))
    throw tusError('MalformedMetadata', 'The content type of Upload-Metadata is not a media type')
  return type
}

/** The declared digests of the whole upload, if any. Throws 400. */
export const digestsIn = (metadata: Metadata) => ({
  md5: digestIn(metadata, 'checksumMd5', 16),
  sha1: digestIn(metadata, 'checksumSha1', 20),
  sha256: digestIn(metadata, 'checksumSha256', 32),
})

function digestIn(metadata: Metadata, name: string, bytes: number): Buffer | null {
  const text = metadata.get(name)
  if (text === undefined) return null
  if (!/^[0-9a-f]*$/i.test(text) || text.length !== bytes * 2)
    throw tusError('MalformedMetadata', `${name} is not ${bytes} bytes in hex`)
  return Buffer.from(text, 'hex')
}
