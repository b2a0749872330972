import type { Condition, ValueTest } from './manifest.ts'

/** What conditions look at; query and cookies are parsed when first asked for. */
export interface Subject {
  host: string
  header(name: string): string | undefined
  cookie(name: string): string | undefined
  query(name: string): string | undefined
}

/** Longer values match no pattern: what a pattern costs stays bounded. */
const VALUE_LENGTH_MAX = 4_096

type Check = (subject: Subject, named: Record<string, string>) => boolean

/**
 * Compiles `has` and `missing`: all of the first hold and none of the second. Named groups of `has` patterns are added to
 * `named`, and so is the value itself, by the letters of its key.
 */
export function compileConditions(has: readonly Condition[], missing: readonly Condition[]): Check | undefined {
  if (has.length === 0 && missing.length === 0) return undefined
  const required = has.map(compileCondition)
  const forbidden = missing.map(compileCondition)
  return (subject, named) =>
    required.every((check) => check(subject, named)) && !forbidden.some((check) => check(subject, {}))
}

/** The names that templates may use of conditions. */
export function namesOf(has: readonly Condition[]): string[] {
  return has.flatMap(({ key, value }) => [
    ...(key === undefined ? [] : [key.replaceAll(/[^A-Za-z]/g, '')]),
    ...[...(patternOf(value) ?? '').matchAll(/\(\?<([A-Za-z_]\w*)>/g)].map(([, name]) => name ?? ''),
  ])
}

/** The pattern of a condition, which is matched from end to end. */
export function patternOf(value: Condition['value']): string | undefined {
  return typeof value === 'string' ? value : value?.re
}

function compileCondition({ type, key = '', value }: Condition): Check {
  const test = compileTest(value)
  const name = type === 'header' ? key.toLowerCase() : key
  const letters = key.replaceAll(/[^A-Za-z]/g, '')
  return (subject, named) => {
    const found = type === 'host' ? subject.host : subject[type](name)
    if (found === undefined) return false
    const match = test(found)
    if (match === false) return false
    if (type !== 'host' && letters !== '') named[letters] = found
    if (match !== true) for (const [name, text] of Object.entries(match)) named[name] = text ?? ''
    return true
  }
}

type Groups = Record<string, string | undefined>

function compileTest(value: Condition['value']): (found: string) => Groups | boolean {
  if (value === undefined) return () => true
  const source = patternOf(value)
  const pattern = source === undefined ? undefined : new RegExp(`^(?:${source})$`)
  const matches = (found: string): Groups | boolean => {
    if (pattern === undefined) return true
    if (found.length > VALUE_LENGTH_MAX) return false
    const match = pattern.exec(found)
    return match === null ? false : (match.groups ?? true)
  }
  if (typeof value === 'string') return matches
  return (found) => holds(value, found) && matches(found)
}

/** Whether a value passes all operations but `re`. Numbers are compared as such; a text that is no number fails them. */
export function holds(test: ValueTest, found: string): boolean {
  const { eq, neq, inc, ninc, pre, suf, gt, gte, lt, lte } = test
  return (
    (eq === undefined || found === String(eq)) &&
    (neq === undefined || found !== neq) &&
    (inc === undefined || inc.includes(found)) &&
    (ninc === undefined || !ninc.includes(found)) &&
    (pre === undefined || found.startsWith(pre)) &&
    (suf === undefined || found.endsWith(suf)) &&
    (gt === undefined || Number(found) > gt) &&
    (gte === undefined || Number(found) >= gte) &&
    (lt === undefined || Number(found) < lt) &&
    (lte === undefined || Number(found) <= lte)
  )
}
