const KEY = /^[A-Za-z_]\w{0,254}$/

/** What a variable's value has at most, in bytes of UTF-8. */
const VALUE_BYTES_MAX = 65_536

/** Why the platform would refuse a name of a variable, as a sentence without a full stop; undefined if it would not. */
export function problemOfKey(key: string): string | undefined {
  if (!KEY.test(key))
    return `"${key}" is not a variable's name: expected letters, digits and "_", at most 255, with no digit first`
  if (key.startsWith('PLATFORM_')) return `${key} is reserved: names that begin with PLATFORM_ are the platform's`
  return undefined
}

/** Why the platform would refuse a value of a variable, in a sentence that never holds it; undefined if it would not. */
export function problemOfValue(key: string, value: string): string | undefined {
  const bytes = new TextEncoder().encode(value).length
  if (bytes > VALUE_BYTES_MAX) return `The value of ${key} has ${bytes} bytes: expected ${VALUE_BYTES_MAX} at most`
  if (value.includes('\0')) return `The value of ${key} holds a NUL, which no variable can`
  return undefined
}
