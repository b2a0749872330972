/** True if a JSON value is an object, not an array or null. */
export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Returns a member of a JSON value; undefined if the value is not an object or lacks it. */
export function memberOf(value: unknown, name: string): unknown {
  return isRecord(value) && Object.hasOwn(value, name) ? value[name] : undefined
}

/** Returns a string member of a JSON value; undefined otherwise. */
export function textOf(value: unknown, name: string): string | undefined {
  const text = memberOf(value, name)
  return typeof text === 'string' ? text : undefined
}

/** Returns the elements of an array member of a JSON value; empty otherwise. */
export function listOf(value: unknown, name: string): readonly unknown[] {
  const list = memberOf(value, name)
  return Array.isArray(list) ? list : []
}
