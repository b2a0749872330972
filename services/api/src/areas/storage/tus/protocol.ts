/** tus 1.0.0 (https://tus.io/protocols/resumable-upload). Comments with MUST or SHOULD cite it. */
export const VERSION = '1.0.0'

/** MUST be listed in Tus-Extension: all supported extensions. */
export const EXTENSIONS = [
  'creation',
  'creation-with-upload',
  'creation-defer-length',
  'checksum',
  'expiration',
  'termination',
  'concatenation',
]

/** MUST support at least sha1; names in lower case. */
export const CHECKSUM_ALGORITHMS = ['sha1', 'sha256', 'md5'] as const

/** The content type of appended bytes. */
export const OFFSET_TYPE = 'application/offset+octet-stream'
