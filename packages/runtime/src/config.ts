import { fileURLToPath } from 'node:url'
import { z } from 'zod'

/** The configuration is invalid. The message names every invalid variable, the expected value, and an example. */
export class ConfigError extends Error {}

const empty = (value: string | undefined): boolean => value === undefined || value === ''

type Environment = Readonly<Record<string, string | undefined>>

/**
 * Reads a service's configuration from its environment, once. Empty variables count as absent. For an invalid value, the error
 * shows the schema's `description`, so that has to say what is expected and give an example; it never shows the value itself,
 * which may be a secret, nor a pattern.
 *
 * retired: variables of earlier releases, by their old names, with the names of their successors. One that is set is an error:
 * ignored, it would leave the service on a default that the operator did not choose.
 * Throws ConfigError.
 */
export function readConfig<S extends z.ZodObject>(
  schema: S,
  env: Environment,
  retired: Readonly<Record<string, string>> = {},
): z.output<S> {
  const variables = Object.fromEntries(
    Object.keys(schema.shape).flatMap((name) => (empty(env[name]) ? [] : [[name, env[name]]])),
  )
  const renamed = Object.entries(retired).flatMap(([name, successor]) =>
    empty(env[name]) ? [] : [`${name} is not read any more: set ${successor} in its place, and remove ${name}`],
  )
  const read = schema.safeParse(variables)
  if (read.success && renamed.length === 0) return read.data
  const invalid = (read.error?.issues ?? []).map(({ path, code, message }) => {
    const name = String(path[0] ?? 'configuration')
    const expected = (schema.shape[name] as z.ZodType | undefined)?.description
    // Zod's message about a format quotes its regular expression.
    const reason = code === 'invalid_format' ? '' : ` (${message})`
    return `${name} ${empty(env[name]) ? 'is missing' : `is not valid${reason}`}${expected ? `: expected ${expected}` : ''}`
  })
  const misspelled = findMisspelled(Object.keys(schema.shape), env)
  throw new ConfigError([...new Set([...renamed, ...invalid, ...misspelled])].join('; '))
}

/** True if one character inserted, removed or replaced, or two neighbours swapped, turn one text into the other. */
function isOneEditAway(a: string, b: string): boolean {
  let start = 0
  while (start < a.length && a[start] === b[start]) start++
  let [endA, endB] = [a.length, b.length]
  while (endA > start && endB > start && a[endA - 1] === b[endB - 1]) [endA, endB] = [endA - 1, endB - 1]
  const [leftA, leftB] = [a.slice(start, endA), b.slice(start, endB)]
  if (leftA.length === 2 && leftB.length === 2) return leftA[0] === leftB[1] && leftA[1] === leftB[0]
  return Math.max(leftA.length, leftB.length) === 1
}

/** Shorter names are a letter away from names of other programs. */
const MISSPELLED_FROM = 6

/**
 * Finds variables that are probably misspelled: unknown ones a letter away from a known one that is not set. Returns a sentence
 * for each, which names both and shows no value.
 */
export function findMisspelled(known: readonly string[], env: Environment): string[] {
  const unset = known.filter((name) => name.length >= MISSPELLED_FROM && empty(env[name]))
  return Object.keys(env).flatMap((name) => {
    if (empty(env[name]) || known.includes(name)) return []
    const meant = unset.find((other) => isOneEditAway(name, other))
    return meant === undefined ? [] : [`${name} is set but never read, and ${meant} is not set`]
  })
}

/** A TCP port; 0 lets the system choose. */
export const port = z
  .string()
  .regex(/^\d{1,5}$/)
  .transform(Number)
  .pipe(z.number().max(65_535))

/** `true` or `false`, spelled out. (Number and boolean coercion would take "false" for true.) */
export const flag = z.enum(['true', 'false']).transform((text) => text === 'true')

/** A whole number from 1 up. */
export const count = z
  .string()
  .regex(/^[1-9]\d{0,8}$/)
  .transform(Number)

/** A number of days, from 0 up. */
export const days = z
  .string()
  .regex(/^\d{1,5}$/)
  .transform(Number)

/** A number of months, from 0 up. */
export const months = z
  .string()
  .regex(/^\d{1,3}$/)
  .transform(Number)

/** Comma-separated values; an empty list if absent. */
export const list = z
  .string()
  .transform((text) =>
    text
      .split(',')
      .map((part) => part.trim())
      .filter((part) => part !== ''),
  )
  .default([])

/** False for a file: URL that names a host in place of a folder, such as file://var/mail; true for URLs of other schemes. */
export function hasFolderIfFile(url: string): boolean {
  try {
    return !url.startsWith('file:') || fileURLToPath(url).startsWith('/')
  } catch {
    return false
  }
}

/** An origin such as https://id.example.com: no path, query or trailing slash, so that it compares by equality. */
export const origin = z.url({ protocol: /^https?$/ }).transform((text, context) => {
  const url = new URL(text)
  if (url.pathname === '/' && !url.search && !url.hash && !url.username) return url.origin
  context.addIssue('an origin has no path')
  return z.NEVER
})
