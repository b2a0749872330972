import type { Condition, ValueTest } from './manifest.ts'

/** The data for conditions; query and cookies are parsed at first use. */
export interface Subject {
  host: string
  header(name: string): string | undefined
  cookie(name: string): string | undefined
  query(name: string): string | undefined
}

/** Longer values match no pattern, which bounds the cost of patterns. */
const VALUE_LENGTH_MAX = 4_096

type Check = (subject: Subject, named: Record<string, string>) => boolean

/**
 * Compiles `has` and `missing`: all of the first must hold and none of the second. Adds named groups of `has` patterns to `named`,
 * and the value itself under the letters of its key.
 */
export function compileConditions(has: readonly Condition[], missing: readonly Condition[]): Check | undefined {
  if (has.length === 0 && missing.length === 0) return undefined
  const required = has.map(compileCondition)
  const forbidden = missing.map(compileCondition)
  return (subject, named) =>
    required.every((check) => check(subject, named)) && !forbidden.some((check) => check(subject, {}))
}

/** Returns the names from conditions that templates may use. */
export function namesOf(has: readonly Condition[]): string[] {
  return has.flatMap(({ key, value }) => [
    ...(key === undefined ? [] : [key.replaceAll(/[^A-Za-z]/g, '')]),
    ...[...(patternOf(value) ?? '').matchAll(/\(\?<([A-Za-z_]\w*)>/g)].map(([, name]) => name ?? ''),
  ])
}

/** Returns the pattern of a condition; it has to match the whole value. */
export function patternOf(value: Condition['value']): string | undefined {
  return typeof value === 'string' ? value : value?.re
}

function compileCondition({ type, key = '', value }: Condition): Check {
  const test = compileTest(value)
  const name = type === 'header' ? key.toLowerCase() : key
  const letters = key.replaceAll(/[^A-Za-z]/g, '')
  return (subject, named) => {
    const value = type === 'host' ? subject.host : subject[type](name)
    if (value === undefined) return false
    const match = test(value)
    if (match === false) return false
    if (type !== 'host' && letters !== '') named[letters] = value
    if (match !== true) for (const [name, text] of Object.entries(match)) named[name] = text ?? ''
    return true
  }
}

type Groups = Record<string, string | undefined>

function compileTest(value: Condition['value']): (value: string) => Groups | boolean {
  if (value === undefined) return () => true
  const source = patternOf(value)
  const pattern = source === undefined ? undefined : new RegExp(`^(?:${source})$`)
  const matches = (value: string): Groups | boolean => {
    if (pattern === undefined) return true
    if (value.length > VALUE_LENGTH_MAX) return false
    const match = pattern.exec(value)
    return match === null ? false : (match.groups ?? true)
  }
  if (typeof value === 'string') return matches
  return (actual) => holds(value, actual) && matches(actual)
}

/** True if a value passes all operations but `re`. Numeric operations fail for a text that is not a number. */
export function holds(test: ValueTest, value: string): boolean {
  const { eq, neq, inc, ninc, pre, suf, gt, gte, lt, lte } = test
  return (
    (eq === undefined || value === String(eq)) &&
    (neq === undefined || value !== neq) &&
    (inc === undefined || inc.includes(value)) &&
    (ninc === undefined || !ninc.includes(value)) &&
    (pre === undefined || value.startsWith(pre)) &&
    (suf === undefined || value.endsWith(suf)) &&
    (gt === undefined || Number(value) > gt) &&
    (gte === undefined || Number(value) >= gte) &&
    (lt === undefined || Number(value) < lt) &&
    (lte === undefined || Number(value) <= lte)
  )
}
