const [QUOTE, BACKSLASH, COMMA, COLON] = [0x22, 0x5c, 0x2c, 0x3a]
const [OPENS_ARRAY, CLOSES_ARRAY, OPENS_OBJECT, CLOSES_OBJECT] = [0x5b, 0x5d, 0x7b, 0x7d]
/** What is deeper is not looked into. */
const DEPTH_MEASURED_MAX = 1_000

/** How much there is in JSON. */
export interface JsonMeasure {
  /** How deep it is nested; of what is deeper than a thousand the other figures are those of its beginning. */
  depth: number
  /** Elements of arrays and members of objects, at most. */
  elements: number
  /** Members of all objects. */
  members: number
  /** Members of the object that has most. */
  membersOfOne: number
}

/**
 * Measures JSON without parsing it, since a few megabytes can take seconds and hundreds of megabytes to be parsed: names of members
 * that differ are what costs most, an empty array of three bytes takes fifty to a hundred in memory, and depth overflows the stack of
 * whoever walks through the value. If the bytes are not JSON, the figures mean nothing.
 */
export function measureJson(json: Uint8Array): JsonMeasure {
  let [depth, depthNow, elements, members, membersOfOne] = [0, 0, 0, 0, 0]
  /** Of the objects that are open. */
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

/** Far above any document there is, and below what takes a process long to parse or overflows a stack. */
export const jsonMax: Readonly<JsonMeasure> = {
  depth: 500,
  elements: 1_000_000,
  members: 100_000,
  membersOfOne: 10_000,
}

/** What of JSON there is too much of; undefined: of nothing. */
export function excessOf(measure: JsonMeasure, max: Readonly<JsonMeasure> = jsonMax): keyof JsonMeasure | undefined {
  const names = ['depth', 'elements', 'members', 'membersOfOne'] as const
  return names.find((name) => measure[name] > max[name])
}
