import type { PatternVerdict } from '@platform/build-output/pattern-verdict'
import { bytea, instant } from '@platform/runtime/columns'
import { index, integer, jsonb, pgTable } from 'drizzle-orm/pg-core'

/** What the analysis of patterns found, whichever deployment they came with. Only workers write it. */
export const patternVerdicts = pgTable(
  'pattern_verdicts',
  {
    /** SHA-256 of the analyser, its bounds and the pattern. */
    key: bytea('key').primaryKey(),
    verdict: jsonb().$type<PatternVerdict>().notNull(),
    steps: integer().notNull(),
    /** To a day. */
    usedAt: instant('used_at').notNull(),
  },
  (t) => [index('pattern_verdicts_by_use').on(t.usedAt)],
)
