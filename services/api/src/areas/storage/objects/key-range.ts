import { and, gte, lt, type SQL } from 'drizzle-orm'
import type { PgColumn } from 'drizzle-orm/pg-core'

const CODE_POINT_MAX = 0x10_ff_ff

/** The first text after all those that start with `text`, in byte order; undefined if there is none. */
export function successor(text: string): string | undefined {
  const points = Array.from(text)
  for (;;) {
    const last = points.pop()?.codePointAt(0)
    if (last === undefined) return undefined
    if (last === CODE_POINT_MAX) continue
    const next = last + 1
    // Surrogates are not characters: U+E000 follows U+D7FF.
    return points.join('') + String.fromCodePoint(next === 0xd8_00 ? 0xe0_00 : next)
  }
}

/** The text directly after `text`: keys contain no NUL, so nothing fits in between. */
export const justAfter = (text: string): string => `${text}\u0001`

/** True for keys with the prefix, as a range that can use an index. */
export function withinPrefix(key: PgColumn, prefix: string): SQL | undefined {
  if (prefix === '') return undefined
  const end = successor(prefix)
  return and(gte(key, prefix), end === undefined ? undefined : lt(key, end))
}
