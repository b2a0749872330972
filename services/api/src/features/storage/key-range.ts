import { and, gte, lt, type SQL } from 'drizzle-orm'
import type { PgColumn } from 'drizzle-orm/pg-core'

const CODE_POINT_MAX = 0x10_ff_ff

/** The first text after `text` and everything that begins with it, in the order of bytes; undefined where there is none. */
export function successor(text: string): string | undefined {
  const points = Array.from(text)
  for (;;) {
    const last = points.pop()?.codePointAt(0)
    if (last === undefined) return undefined
    if (last === CODE_POINT_MAX) continue
    const next = last + 1
    // Surrogates are no characters: after U+D7FF comes U+E000.
    return points.join('') + String.fromCodePoint(next === 0xd8_00 ? 0xe0_00 : next)
  }
}

/** The text that comes right after `text`: a key holds no NUL, so nothing fits in between. */
export const justAfter = (text: string): string => `${text}\u0001`

/** True for keys that begin with the prefix, as a range that an index can follow. */
export function withinPrefix(key: PgColumn, prefix: string): SQL | undefined {
  if (prefix === '') return undefined
  const end = successor(prefix)
  return and(gte(key, prefix), end === undefined ? undefined : lt(key, end))
}
