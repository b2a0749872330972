import { z } from 'zod'

/** The configuration is invalid. The message names every invalid variable, the expected value, and an example. */
export class ConfigError extends Error {}

const empty = (value: string | undefined): boolean => value === undefined || value === ''

/**
 * Reads a service's configuration from its environment, once. Empty variables count as absent. For an invalid value, the error
 * shows the schema's `description`, so that has to say what is expected and give an example; it never shows the value itself,
 * which may be a secret.
 *
 * Throws ConfigError.
 */
export function readConfig<S extends z.ZodObject>(schema: S, env: Record<string, string | undefined>): z.output<S> {
  const variables = Object.fromEntries(
    Object.keys(schema.shape).flatMap((name) => (empty(env[name]) ? [] : [[name, env[name]]])),
  )
  const read = schema.safeParse(variables)
  if (read.success) return read.data
  const lines = read.error.issues.map((issue) => {
    const name = String(issue.path[0] ?? 'configuration')
    const expected = (schema.shape[name] as z.ZodType | undefined)?.description
    return `${name} ${empty(env[name]) ? 'is missing' : `is not valid (${issue.message})`}${expected ? `: expected ${expected}` : ''}`
  })
  throw new ConfigError(lines.join('; '))
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

/** An origin such as https://id.example.com: no path, query or trailing slash, so that it compares by equality. */
export const origin = z.url({ protocol: /^https?$/ }).transform((text, context) => {
  const url = new URL(text)
  if (url.pathname === '/' && !url.search && !url.hash && !url.username) return url.origin
  context.addIssue('an origin has no path')
  return z.NEVER
})
