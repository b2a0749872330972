/** Far above any document there is, and below what JSON.stringify and all others who walk through a value can take. */
export const DEPTH_MAX = 500
export const ELEMENTS_MAX = 1_000_000
/** JSON from this size on is looked through before it is parsed. */
export const LARGE_BYTES = 1_048_576
const [QUOTE, BACKSLASH, COMMA] = [0x22, 0x5c, 0x2c]
/** Of `[` and `{`, and of `]` and `}`: these differ in one bit alone. */
const [OPENS, CLOSES, CASE_BIT] = [0x5b, 0x5d, 0x20]

/**
 * What of large JSON would take far more memory than its bytes, or overflow the stack of those who walk through it: its depth, or its
 * elements, since an empty array of three bytes takes fifty. undefined: nothing, or it is not large. Not for JSON that is not valid.
 */
export function findExcess(json: Uint8Array): 'depth' | 'elements' | undefined {
  if (json.length < LARGE_BYTES) return undefined
  let depth = 0
  let elements = 0
  for (let n = 0; n < json.length; n++) {
    const byte = json[n] as number
    if (byte === QUOTE) {
      while (++n < json.length && json[n] !== QUOTE) if (json[n] === BACKSLASH) n++
    } else if (byte === COMMA) elements++
    else if ((byte & ~CASE_BIT) === OPENS) {
      elements++
      if (++depth > DEPTH_MAX) return 'depth'
    } else if ((byte & ~CASE_BIT) === CLOSES) depth--
    if (elements > ELEMENTS_MAX) return 'elements'
  }
  return undefined
}
