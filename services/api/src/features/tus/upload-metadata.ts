import { BadRequest } from '@platform/errors/api-error'

const NAMES_MAX = 50

/**
 * What a tus client says of an upload: names with values in base64, with commas (tus 1.0.0 Upload-Metadata). Throws
 * BadRequest.
 */
export function readUploadMetadata(header: string | undefined): ReadonlyMap<string, string> {
  const found = new Map<string, string>()
  if (header === undefined || header.trim() === '') return found
  const pairs = header.split(',').map((pair) => pair.trim().split(/ +/))
  if (pairs.length > NAMES_MAX) throw new BadRequest('Upload-Metadata names too much')
  for (const [name = '', encoded = '', ...rest] of pairs) {
    const bytes = Buffer.from(encoded, 'base64')
    const isBase64 = bytes.toString('base64').replace(/=+$/, '') === encoded.replace(/=+$/, '')
    if (!/^[\x21-\x2b\x2d-\x7e]+$/.test(name) || rest.length > 0 || !isBase64 || found.has(name))
      throw new BadRequest('Upload-Metadata is not a list of names with values in base64')
    const value = bytes.toString('utf8')
    if (!Buffer.from(value).equals(bytes)) throw new BadRequest(`Upload-Metadata ${name} is not valid UTF-8`)
    found.set(name, value)
  }
  return found
}
