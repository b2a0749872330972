const [QUOTE, BACKSLASH, COMMA] = [0x22, 0x5c, 0x2c]
/** Of `[` and `{`, and of `]` and `}`: these differ in one bit alone. */
const [OPENS, CLOSES, CASE_BIT] = [0x5b, 0x5d, 0x20]

/**
 * How deep JSON is nested, and how many elements it has at most, without parsing it: an empty array of three bytes takes fifty to a
 * hundred in memory, and depth overflows the stack of whoever walks through a value. Of bytes that are no JSON the figures mean
 * nothing.
 */
export function measureJson(json: Uint8Array): { depth: number; elements: number } {
  let depth = 0
  let depthNow = 0
  let elements = 0
  for (let n = 0; n < json.length; n++) {
    const byte = json[n] as number
    if (byte === QUOTE) {
      while (++n < json.length && json[n] !== QUOTE) if (json[n] === BACKSLASH) n++
    } else if (byte === COMMA) elements++
    else if ((byte & ~CASE_BIT) === OPENS) {
      elements++
      if (++depthNow > depth) depth = depthNow
    } else if ((byte & ~CASE_BIT) === CLOSES) depthNow--
  }
  return { depth, elements }
}
