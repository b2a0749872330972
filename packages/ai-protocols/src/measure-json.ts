const [QUOTE, BACKSLASH, COMMA, COLON] = [0x22, 0x5c, 0x2c, 0x3a]
const [OPENS_ARRAY, CLOSES_ARRAY, OPENS_OBJECT, CLOSES_OBJECT] = [0x5b, 0x5d, 0x7b, 0x7d]
/** Anything deeper is not measured. */
const DEPTH_MEASURED_MAX = 1_000

/** The size of a JSON document. */
export interface JsonMeasure {
  /** Nesting depth; if it exceeds a thousand, the other figures cover only the beginning. */
  depth: number
  /** Elements of arrays and members of objects; an upper bound. */
  elements: number
  /** Members of all objects. */
  members: number
  /** Members of the largest object. */
  membersOfOne: number
}

/**
 * Measures JSON without parsing it, since parsing a few megabytes can take seconds and hundreds of megabytes: distinct member
 * names cost most, an empty array of three bytes takes fifty to a hundred in memory, and depth overflows the stack of recursive
 * code. If the bytes are not valid JSON, the figures are meaningless.
 */
export function measureJson(json: Uint8Array): JsonMeasure {
  let [depth, depthNow, elements, members, membersOfOne] = [0, 0, 0, 0, 0]
  /** Member counts of the open objects. */
  const counts: number[] = []
  for (let n = 0; n < json.length; n++) {
    const byte = json[n] as number
    switch (byte) {
      case QUOTE:
        while (++n < json.length && json[n] !== QUOTE) if (json[n] === BACKSLASH) n++
        break
      case COMMA:
        elements++
        break
      case COLON: {
        const count = (counts.pop() ?? 0) + 1
        counts.push(count)
        members++
        if (count > membersOfOne) membersOfOne = count
        break
      }
      case OPENS_OBJECT:
      case OPENS_ARRAY:
        if (byte === OPENS_OBJECT) counts.push(0)
        elements++
        if (++depthNow > depth) depth = depthNow
        if (depth > DEPTH_MEASURED_MAX) return { depth, elements, members, membersOfOne }
        break
      case CLOSES_OBJECT:
        counts.pop()
        depthNow--
        break
      case CLOSES_ARRAY:
        depthNow--
        break
    }
  }
  return { depth, elements, members, membersOfOne }
}

/** Far above any real document, and below what takes long to parse or overflows a stack. */
export const jsonMax: Readonly<JsonMeasure> = {
  depth: 500,
  elements: 1_000_000,
  members: 100_000,
  membersOfOne: 10_000,
}

/** Returns the first figure that exceeds its maximum; undefined if none does. */
export function excessOf(measure: JsonMeasure, max: Readonly<JsonMeasure> = jsonMax): keyof JsonMeasure | undefined {
  const names = ['depth', 'elements', 'members', 'membersOfOne'] as const
  return names.find((name) => measure[name] > max[name])
}
