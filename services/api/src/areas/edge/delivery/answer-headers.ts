import type { Answer, HeaderPairs } from '@platform/build-output/router'
import { cleanAnswerHeaders } from './headers.ts'

/** Converts headers from an HTTP client to pairs. Names are in lower case. */
export function pairsOf(headers: Readonly<Record<string, string | string[] | undefined>>): HeaderPairs {
  const pairs: HeaderPairs = []
  for (const name of Object.keys(headers)) {
    const value = headers[name]
    if (typeof value === 'string') pairs.push([name, value])
    else for (const one of value ?? []) pairs.push([name, one])
  }
  return pairs
}

/**
 * Merges the headers of an answer from elsewhere with those that routes add: the answer's own header wins over a route's of the
 * same name, unless the route's is `important`.
 *
 * received: names in lower case. hostname: without port.
 */
export function mergeAnswerHeaders(
  { headers: added, important }: Pick<Answer, 'headers' | 'important'>,
  received: HeaderPairs,
  hostname: string,
): HeaderPairs {
  if (added.length === 0) return cleanAnswerHeaders(received, hostname)
  const own = new Set(received.map(([name]) => name))
  const replaced = new Set(important)
  const kept = received.filter(([name]) => !replaced.has(name))
  const more = added.filter(([name]) => replaced.has(name) || !own.has(name))
  return cleanAnswerHeaders([...kept, ...more], hostname)
}

/** The status for the client: a route's status replaces only a Function's 200. */
export const statusFor = (status: number, answer: { status?: number | undefined }): number =>
  status === 200 ? (answer.status ?? 200) : status
