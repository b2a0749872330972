import { counted } from '../words.ts'
import type { LogGap, LogLine, LogRow } from './lines.ts'
import type { LogViewing } from './viewing.ts'

/** How a line looks, by its level. */
export const GROUNDS: Record<LogLine['level'], string> = {
  ERROR: 'border-bad bg-bad-tint',
  WARN: 'border-warn',
  INFO: 'border-transparent',
  DEBUG: 'border-transparent text-soft',
}

const two = (value: number): string => String(value).padStart(2, '0')

/** The time of day where the reader is, such as `14:03:09`. */
export const clock = (at: Date): string => `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`

export interface RowProps<Line extends LogLine = LogLine> {
  viewing: LogViewing<Line>
  row: LogRow<Line>
  number: number
  pattern: RegExp | undefined
  /** Whether it is the match that was gone to. */
  isCurrent: boolean
  isMarked: boolean
  /** How many digits the longest number has. */
  digits: number
  /** Elements that colours, links and matches may take. */
  elementsMax: number
}

/** A row in which lines were left out. start: where its text begins, in CSS. */
export const GapRow = ({ gap, noun, start = '0.75rem' }: { gap: LogGap; noun: string; start?: string }) => (
  <div class="flex h-[1lh] border-s-3 border-line bg-surface text-soft">
    <span style={{ marginInlineStart: start }}>
      {counted(gap.gap, noun)} {gap.gap === 1 ? 'was' : 'were'} left out
    </span>
  </div>
)
