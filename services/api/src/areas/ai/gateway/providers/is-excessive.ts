import { excessOf, jsonMax, measureJson } from '@platform/ai-protocols/measure-json'

/** Smaller JSON from a provider is parsed unmeasured: streams have many events. */
const LARGE_BYTES = 65_536
/** The log probabilities of 16,000 tokens with 20 alternatives each are a million members and three million elements. */
const answerMax = { ...jsonMax, elements: 5_000_000, members: 2_000_000 }

/** True if an answer, or an event of one, would take too long or too much memory to parse. */
export const isExcessive = (json: Uint8Array): boolean =>
  json.length >= LARGE_BYTES && excessOf(measureJson(json), answerMax) !== undefined
