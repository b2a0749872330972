import { isRecord } from './record.ts'

/** The first error in a request: where, and a sentence without its subject, for example `must be a string`. */
export interface Fault {
  path: readonly (string | number)[]
  message: string
}

/** Checks one value. Returns undefined if it is valid; a fault's path starts at the value. */
export type Check = (value: unknown) => Fault | undefined

/** Makes a fault of the value itself. */
export function faultOf(message: string): Fault {
  return { path: [], message }
}

/** Returns the same fault with a path from the object or array that holds the value. */
export function within(key: string | number, fault: Fault | undefined): Fault | undefined {
  return fault && { path: [key, ...fault.path], message: fault.message }
}

/** Formats a path as OpenAI's API does in `param`: `messages[1].content`. */
export function paramOf(path: Fault['path']): string {
  return path.map((key, index) => (typeof key === 'number' ? `[${key}]` : index === 0 ? key : `.${key}`)).join('')
}

/** Accepts absent members and null, which OpenAI's API treats as absent, and what the check accepts. */
export function optional(check: Check): Check {
  return (value) => (value == null ? undefined : check(value))
}

/** Accepts strings. */
export const isText: Check = (value) => (typeof value === 'string' ? undefined : faultOf('must be a string'))

/** Accepts non-empty strings of at most `charactersMax` Unicode code points. */
function isTextUpTo(charactersMax: number): Check {
  return (value) => {
    if (typeof value !== 'string' || value === '') return faultOf('must be a string that is not empty')
    // A code point has at most two code units, so the code points of a string longer than that need not be counted.
    if (
      value.length > 2 * charactersMax ||
      (value.length > charactersMax && Array.from(value).length > charactersMax)
    ) {
      return faultOf(`must have at most ${charactersMax} characters`)
    }
  }
}

/** Accepts non-empty strings. */
export const isFilledText = isTextUpTo(Infinity)

/** Accepts the id of a model. */
export const isModelId = isTextUpTo(256)

/** Accepts true and false. */
export const isBoolean: Check = (value) => (typeof value === 'boolean' ? undefined : faultOf('must be true or false'))

/** Accepts finite numbers from `min` to `max`. */
export function isNumberFrom(min: number, max: number): Check {
  return (value) =>
    typeof value === 'number' && value >= min && value <= max
      ? undefined
      : faultOf(`must be a number from ${min} to ${max}`)
}

/** Accepts integers from `min` to `max`; without `max`, up to the largest that JSON represents exactly. */
export function isIntegerFrom(min: number, max = Number.MAX_SAFE_INTEGER): Check {
  const range =
    max === Number.MAX_SAFE_INTEGER
      ? min === Number.MIN_SAFE_INTEGER
        ? 'an integer'
        : `an integer of at least ${min}`
      : `an integer from ${min} to ${max}`
  return (value) =>
    typeof value === 'number' && Number.isSafeInteger(value) && value >= min && value <= max
      ? undefined
      : faultOf(`must be ${range}`)
}

/** Accepts one of the strings. */
export function isOneOf(...texts: readonly string[]): Check {
  return (value) =>
    typeof value === 'string' && texts.includes(value) ? undefined : faultOf(`must be one of ${texts.join(', ')}`)
}

/** Accepts arrays of at least `min` elements that each pass the check. */
export function isListOf(check: Check, min = 0): Check {
  return (value) => {
    if (!Array.isArray(value)) return faultOf('must be an array')
    if (value.length < min) return faultOf(`must have at least ${min === 1 ? 'one element' : `${min} elements`}`)
    for (const [index, element] of value.entries()) {
      const fault = check(element)
      if (fault !== undefined) return within(index, fault)
    }
  }
}

/** Accepts objects whose members pass their checks, which run in order. Other members pass. */
export function isObjectWith(checks: Readonly<Record<string, Check>> = {}): Check {
  const entries = Object.entries(checks)
  return (value) => {
    if (!isRecord(value)) return faultOf('must be an object')
    for (const [name, check] of entries) {
      const fault = check(Object.hasOwn(value, name) ? value[name] : undefined)
      if (fault !== undefined) return within(name, fault)
    }
  }
}

/** Accepts objects with a string `type` whose members pass the checks of that type; a type without checks accepts any members. */
export function isTypedObject(checksByType: Readonly<Record<string, Check>>): Check {
  const isTyped = isObjectWith({ type: isFilledText })
  return (value) => {
    const fault = isTyped(value)
    if (fault !== undefined || !isRecord(value)) return fault
    const type = String(value['type'])
    return Object.hasOwn(checksByType, type) ? checksByType[type]?.(value) : undefined
  }
}

/** Accepts strings, or what the check accepts. */
export function isTextOr(check: Check): Check {
  return (value) => (typeof value === 'string' ? undefined : check(value))
}

const isMetadataKey = isTextUpTo(64)

/** Accepts `metadata`: at most 16 strings of at most 512 characters, with keys of at most 64. */
export const isMetadata: Check = (value) => {
  if (!isRecord(value)) return faultOf('must be an object')
  const entries = Object.entries(value)
  if (entries.length > 16) return faultOf('must have at most 16 members')
  for (const [key, text] of entries) {
    if (isMetadataKey(key) !== undefined) return within(key, faultOf('must have a name of 1 to 64 characters'))
    const fault = text === '' ? undefined : isTextUpTo(512)(text)
    if (fault !== undefined) return within(key, typeof text === 'string' ? fault : faultOf('must be a string'))
  }
}

/** Accepts `provider`, this gateway's own member: the caller's routing preferences. */
export const isProviderChoice = isObjectWith({
  order: optional(isListOf(isFilledText)),
  allow_fallbacks: optional(isBoolean),
  require_zdr: optional(isBoolean),
  restrict_to_order: optional(isBoolean),
})

/** The caller's routing preferences for a request. */
export interface ProviderChoice {
  order?: string[] | null
  allow_fallbacks?: boolean | null
  require_zdr?: boolean | null
  restrict_to_order?: boolean | null
}
