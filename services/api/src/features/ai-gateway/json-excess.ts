import { measureJson } from '@platform/ai-protocols/measure-json'

/** Far above any document there is, and below what JSON.stringify and all others who walk through a value can take. */
export const DEPTH_MAX = 500
export const ELEMENTS_MAX = 1_000_000
/** JSON from this size on is looked through before it is parsed. */
export const LARGE_BYTES = 1_048_576

/** What of large JSON there is too much of for memory or stack. undefined: of nothing, or the JSON is not large. */
export function findExcess(json: Uint8Array): 'depth' | 'elements' | undefined {
  if (json.length < LARGE_BYTES) return undefined
  const { depth, elements } = measureJson(json)
  if (depth > DEPTH_MAX) return 'depth'
  return elements > ELEMENTS_MAX ? 'elements' : undefined
}
