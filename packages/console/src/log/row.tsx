import { useMemo } from 'preact/hooks'
import { bytes, counted } from '../words.ts'
import { type Piece, readEscapes } from './escapes.ts'
import { rangesOf } from './find.ts'
import { isGap, type LogGap, type LogLine, type LogRow } from './lines.ts'
import { type Segment, segmentsOf } from './segments.ts'
import type { LogViewing } from './viewing.ts'

/** UTF-16 code units of a line that a row shows. */
const CHARACTERS_MAX = 4_096
const MATCHES_MAX = 20

const GROUNDS: Record<LogLine['level'], string> = {
  ERROR: 'border-bad bg-bad-tint',
  WARN: 'border-warn',
  INFO: 'border-transparent',
  DEBUG: 'border-transparent text-soft',
}

const two = (value: number): string => String(value).padStart(2, '0')

/** The time of day where the reader is, such as `14:03:09`. */
const clock = (at: Date): string => `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`

function SegmentView({
  segment: { text, class: own, href, isMatch },
  isCurrent,
}: {
  segment: Segment
  isCurrent: boolean
}) {
  const shown = text.replaceAll('\n', '↵')
  const marked = isMatch ? (
    <mark class={isCurrent ? 'bg-accent text-on-accent' : 'border-b-2 border-accent bg-accent-tint text-ink'}>
      {shown}
    </mark>
  ) : (
    shown
  )
  if (href !== undefined)
    return (
      <a class={`underline ${own ?? ''}`} href={href} title={href} target="_blank" rel="noopener noreferrer">
        {marked}
      </a>
    )
  return own === undefined ? <>{marked}</> : <span class={own}>{marked}</span>
}

/** How much there is of a line whose text does not fit into its row; undefined if it does. */
function wholeText(text: string, isCut: boolean): string | undefined {
  if (isCut) return bytes(text.length)
  const lines = text.trimEnd().split('\n').length
  return lines > 1 ? counted(lines, 'line') : undefined
}

const textOf = (pieces: readonly Piece[]): string => pieces.map((piece) => piece.text).join('')

interface RowProps {
  viewing: LogViewing
  row: LogRow
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

/** One row of a log, as high as a line of text, as wide as it has to be. */
export const Row = ({ row, ...rest }: RowProps) =>
  isGap(row) ? <GapRow {...rest} gap={row} /> : <LineRow {...rest} line={row} />

const GapRow = ({ gap, digits }: Pick<RowProps, 'digits'> & { gap: LogGap }) => (
  <div class="flex h-5 border-s-3 border-line bg-surface text-soft">
    {/* Below the texts of lines, whose number and time it does not have. */}
    <span style={{ marginInlineStart: `calc(${digits + 8}ch + 1.75rem)` }}>
      {counted(gap.gap, 'line')} {gap.gap === 1 ? 'was' : 'were'} left out
    </span>
  </div>
)

function LineRow({
  viewing,
  line,
  number,
  pattern,
  isCurrent,
  isMarked,
  digits,
  elementsMax,
}: Omit<RowProps, 'row'> & { line: LogLine }) {
  const { pieces, isCut } = useMemo(() => readEscapes(line.text, CHARACTERS_MAX), [line])
  // The same element again tells Preact that nothing in it changed.
  return useMemo(() => {
    const ranges = pattern ? rangesOf(textOf(pieces), pattern, MATCHES_MAX) : []
    const whole = wholeText(line.text, isCut)
    const at = new Date(line.at)
    return (
      <div
        class={`flex h-5 border-s-3 ${GROUNDS[line.level]} ${isMarked ? 'bg-accent-tint' : ''}`}
        data-marked={isMarked || undefined}
        data-current={isCurrent || undefined}
      >
        <a
          href={`#L${number}`}
          aria-label={`Line ${number}`}
          class={`shrink-0 ps-1 text-end select-none hover:underline ${isMarked ? 'font-semibold text-accent' : 'text-soft'}`}
          style={{ minWidth: `calc(${digits}ch + 0.25rem)` }}
          onClick={(event) => {
            event.preventDefault()
            history.replaceState(history.state, '', `#L${number}`)
            viewing.mark(number)
          }}
        >
          {number}
        </a>
        <time
          dateTime={line.at}
          title={`${line.at.replace('T', ' ').replace('Z', '')} UTC`}
          class="shrink-0 ps-3 text-soft select-none"
        >
          {clock(at)}
        </time>
        {line.level === 'ERROR' && <span class="sr-only select-none">Error:</span>}
        <span class="ps-3 pe-4 whitespace-pre">
          {segmentsOf(pieces, ranges, elementsMax).map((segment, at) => (
            <SegmentView key={at} segment={segment} isCurrent={isCurrent} />
          ))}
        </span>
        {whole !== undefined && (
          <button
            type="button"
            class="sticky end-0 shrink-0 bg-surface px-2 text-accent underline select-none"
            onClick={() => viewing.showWhole({ line, number })}
          >
            Show whole<span class="max-sm:hidden"> ({whole})</span>
          </button>
        )}
      </div>
    )
  }, [viewing, line, number, pattern, isCurrent, isMarked, digits, elementsMax])
}
