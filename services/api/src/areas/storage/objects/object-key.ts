/** Maximum length of an object's key, in bytes of UTF-8. */
export const KEY_BYTES_MAX = 1_024

/** A media type that a header can carry. */
export const CONTENT_TYPE = /^[\w!#$&^.+-]{1,127}\/[\w!#$&^.+-]{1,127}( *;[\x20-\x7e]{0,100})?$/

/** Why a text cannot be an object's key; undefined if it can: 1 to 1,024 bytes of UTF-8 without NUL. */
export function whyNoKey(key: string): string | undefined {
  if (key === '') return 'The key is empty'
  if (!key.isWellFormed() || key.includes('\0')) return 'The key is not valid text'
  return Buffer.byteLength(key) > KEY_BYTES_MAX ? `The key is longer than ${KEY_BYTES_MAX} bytes` : undefined
}
