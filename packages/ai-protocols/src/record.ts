/** Whether a JSON value is an object: no array and not null. */
export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** A member of a JSON value; undefined where the value is no object or lacks it. */
export function memberOf(value: unknown, name: string): unknown {
  return isRecord(value) && Object.hasOwn(value, name) ? value[name] : undefined
}

/** A member of a JSON value that is text; undefined otherwise. */
export function textOf(value: unknown, name: string): string | undefined {
  const text = memberOf(value, name)
  return typeof text === 'string' ? text : undefined
}

/** The elements of a member of a JSON value that is an array; none otherwise. */
export function listOf(value: unknown, name: string): readonly unknown[] {
  const list = memberOf(value, name)
  return Array.isArray(list) ? list : []
}
