import { fail } from './fail.ts'
import type { Repetition } from './repetition.ts'
import type { Spec } from './spec.ts'

/** A request without its token. */
export interface Prepared {
  method: string
  /** With its placeholders, for messages. */
  path: string
  /** Default: the path below the platform. */
  url?: string
  headers?: Record<string, string>
  body?: RequestInit['body'] | undefined
  repetition: Repetition
  /** True if it carries its own authority, and goes without a token. */
  isPublic?: boolean
}

/** Throws TypeError naming the first member that is not one of the names. */
export function refuseUnknown(what: string, given: object, names: readonly string[]): void {
  for (const name in given) if (!names.includes(name)) fail(`${what} takes no "${name}"`)
}

/** The URL without a slash at its end. Throws TypeError unless it is one of HTTP, without a query. */
export const baseUrlOf = (given: string): string =>
  /^https?:\/\/[^?#@]+$/.test(given)
    ? new URL(given).href.replace(/\/+$/, '')
    : fail(`Platform needs a baseUrl, not "${given}"`)

/**
 * Puts the members of a call where the operation has them. more: further headers. Throws TypeError for a member that is unknown, and
 * for one of the path that is missing.
 */
export function prepare(
  baseUrl: string,
  { method, path, query, repetition, place }: Spec,
  given: Record<string, unknown>,
  { idempotencyKey }: { idempotencyKey?: string | undefined },
  more?: Record<string, string>,
): Prepared {
  const [{ body, ...params }, placed] = place?.(given, idempotencyKey) ?? [given]
  const headers: Record<string, string> = { ...more, ...placed }
  const names = [...query]
  const url = new URL(
    baseUrl +
      path.replace(/\{(\w+)\}/g, (_, name: string) => {
        names.push(name)
        const value = (params[name] ?? '') as string
        // A dot segment would lead to another operation.
        return /^\.{0,2}$/.test(value) ? fail(`${path} needs ${name}`) : encodeURIComponent(value)
      }),
  )
  refuseUnknown(path, params, names)
  for (const name of query) if (params[name] !== undefined) url.searchParams.set(name, params[name] as string)
  if (body !== undefined) headers['content-type'] = 'application/json'
  return { method, path, url: url.href, headers, body: JSON.stringify(body), repetition }
}
