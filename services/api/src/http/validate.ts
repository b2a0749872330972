import type { z } from '@hono/zod-openapi'
import { type FieldFailure, ValidationFailed } from '@platform/errors/api-error'
import { nearestName } from './nearest-name.ts'

/** Members whose values never appear in an answer (D14). */
const secretNames = new Set(['value', 'secret', 'client_secret', 'password', 'token', 'access', 'signature'])
const REDACTED = '[redacted]'
const FOUND_LENGTH_MAX = 1_024
const FOUND_DEPTH_MAX = 4
const FAILURES_MAX = 100

type Issue = z.core.$ZodIssue

const secretBodies = new WeakSet<z.ZodType>()

/**
 * Marks a body whose validation errors echo none of its values: a secret under a misspelt name would leak. Returns the schema.
 */
export function secretBody<S extends z.ZodType>(schema: S): S {
  secretBodies.add(schema)
  return schema
}

/**
 * The value as a validation error may show it: without secrets, limited in depth (deeply nested JSON must not crash us), cut at 1
 * kB.
 */
function shown(value: unknown, name: PropertyKey | undefined): unknown {
  if (value === undefined) return null
  if (typeof name === 'string' && secretNames.has(name)) return REDACTED
  const shallow = bounded(value, FOUND_DEPTH_MAX)
  const json = JSON.stringify(shallow)
  return json.length <= FOUND_LENGTH_MAX ? shallow : `${json.slice(0, FOUND_LENGTH_MAX)}…`
}

function bounded(value: unknown, depth: number): unknown {
  if (typeof value === 'string') return value.length > FOUND_LENGTH_MAX ? `${value.slice(0, FOUND_LENGTH_MAX)}…` : value
  if (typeof value !== 'object' || value === null) return value
  if (depth === 0) return Array.isArray(value) ? '[…]' : '{…}'
  if (Array.isArray(value)) return value.slice(0, 20).map((item) => bounded(item, depth - 1))
  const entries = Object.entries(value).slice(0, 20)
  return Object.fromEntries(
    entries.map(([key, item]) => [key, secretNames.has(key) ? REDACTED : bounded(item, depth - 1)]),
  )
}

function expectation(issue: Issue): unknown {
  switch (issue.code) {
    case 'invalid_type':
      return issue.expected
    case 'too_small':
      return { minimum: Number(issue.minimum) }
    case 'too_big':
      return { maximum: Number(issue.maximum) }
    case 'invalid_format':
      return issue.format === 'regex' ? issue.pattern : issue.format
    case 'invalid_value':
      return issue.values
    case 'unrecognized_keys':
      return 'no such member'
    case 'invalid_union':
      return issue.errors.length === 0 ? issue.message : typesOf(issue.errors)
    default:
      return issue.message
  }
}

/** What the branches of a union expect, if a value fits none of them. */
const typesOf = (branches: readonly (readonly Issue[])[]): unknown[] => [
  ...new Set(branches.flat().flatMap((issue) => expectation(issue))),
]

const pointer = (path: readonly PropertyKey[]): string =>
  path.map((part) => `/${String(part).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('')

const valueAt = (input: unknown, path: readonly PropertyKey[]): unknown =>
  path.reduce<unknown>(
    (value, part) =>
      typeof value === 'object' && value !== null && Object.hasOwn(value, part)
        ? (value as Record<PropertyKey, unknown>)[part]
        : undefined,
    input,
  )

function failure(input: unknown, path: readonly PropertyKey[], issue: Issue, message: string): FieldFailure {
  const property = pointer(path)
  return {
    property,
    message: `${property === '' ? 'The value' : property}: ${message}`,
    summary: message,
    expected: expectation(issue),
    found: shown(valueAt(input, path), path.at(-1)),
  }
}

function failures(input: unknown, issue: Issue): FieldFailure[] {
  if (issue.code === 'invalid_union' && issue.errors.length > 0)
    return [failure(input, issue.path, issue, `${issue.message}: expected ${typesOf(issue.errors).join(' or ')}`)]
  if (issue.code !== 'unrecognized_keys') {
    const isMissing = issue.code === 'invalid_type' && valueAt(input, issue.path) === undefined
    return [failure(input, issue.path, issue, isMissing ? 'Required' : issue.message)]
  }
  return issue.keys.map((key) => failure(input, [...issue.path, key], issue, 'Unknown member'))
}

/** How deep a value fits a schema: at a wrong type or option it stops fitting; whatever else is wrong is wrong within it. */
const depthOf = ({ code, path }: Issue): number =>
  code === 'invalid_type' || code === 'invalid_value' || code === 'invalid_union' ? path.length : path.length + 1
const depthOfAll = (issues: readonly Issue[]): number =>
  issues.reduce((depth, issue) => Math.max(depth, depthOf(issue)), 0)

/**
 * Returns the issues of the branch of a union that the value fits most deeply; of several such branches, the one with the fewest
 * issues. They say where the value is wrong, which the issue of the union does not. If the value fits no branch, that issue stays.
 */
function issuesOfBranch(issue: Issue): Issue[] {
  if (issue.code !== 'invalid_union') return [issue]
  const branches = issue.errors.map((branch) => branch.flatMap(issuesOfBranch))
  const [best = []] = branches.toSorted((a, b) => depthOfAll(b) - depthOfAll(a) || a.length - b.length)
  if (depthOfAll(best) === 0) return [issue]
  return best.map((inner) => ({ ...inner, path: [...issue.path, ...inner.path] }))
}

/** The failures of a query with unknown names. Each says which known name was probably meant or, if none is near, which there are. */
function unknownNames(
  query: unknown,
  issue: Extract<Issue, { code: 'unrecognized_keys' }>,
  known: readonly string[],
): FieldFailure[] {
  return issue.keys.map((name) => {
    const nearest = nearestName(name, known)
    const hint = nearest === undefined ? `expected one of ${known.join(', ')}` : `did you mean ${nearest}?`
    return { ...failure(query, [name], issue, `Unknown parameter, ${hint}`), expected: known }
  })
}

/** Parses input, or throws the 422 with one entry per failing field (A §7 Validation failure, D14). */
export function parseInput<S extends z.ZodType>(
  schema: S,
  input: unknown,
  on: 'body' | 'query' | 'headers',
): z.output<S> {
  const parsed = schema.safeParse(input)
  if (parsed.success) return parsed.data
  // One entry per field (A §7): the first failure is enough.
  const byField = new Map<string, FieldFailure>()
  for (const issue of parsed.error.issues.flatMap(issuesOfBranch)) {
    const fieldFailures =
      on === 'query' && issue.code === 'unrecognized_keys'
        ? unknownNames(input, issue, Object.keys((schema as unknown as z.ZodObject).shape))
        : failures(input, issue)
    for (const fieldFailure of fieldFailures)
      if (!byField.has(fieldFailure.property)) byField.set(fieldFailure.property, fieldFailure)
  }
  const isSecret = secretBodies.has(schema)
  const [first, ...rest] = Array.from(byField.values(), (failed) =>
    isSecret && failed.found !== null ? { ...failed, found: REDACTED } : failed,
  ).slice(0, FAILURES_MAX)
  if (!first) throw parsed.error
  throw new ValidationFailed(on, [first, ...rest])
}

/**
 * Throws ValidationFailed (422) naming each of these query parameters that is given more than once: none is a list, and which of
 * the values counts would depend on the reader (D116).
 */
export function requireGivenOnce(names: readonly string[], valuesOf: (name: string) => readonly string[]): void {
  const [first, ...rest] = names.flatMap((name): FieldFailure[] => {
    const values = valuesOf(name)
    if (values.length < 2) return []
    const property = pointer([name])
    const summary = 'Given more than once'
    return [
      { property, message: `${property}: ${summary}`, summary, expected: 'one value', found: shown(values, name) },
    ]
  })
  if (first) throw new ValidationFailed('query', [first, ...rest])
}
