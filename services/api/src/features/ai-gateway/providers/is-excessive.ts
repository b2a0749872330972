import { excessOf, measureJson } from '@platform/ai-protocols/measure-json'

/** Smaller JSON of a provider is parsed as it is: streams have many events. */
const LARGE_BYTES = 65_536

/** True of an answer, or an event of one, that would take a process too long or too much memory to parse. */
export const isExcessive = (json: Uint8Array): boolean =>
  json.length >= LARGE_BYTES && excessOf(measureJson(json)) !== undefined
