import { useMemo } from 'preact/hooks'
import { bytes, counted } from '../words.ts'
import { type Piece, readEscapes } from './escapes.ts'
import { rangesOf } from './find.ts'
import { isGap, type LogLine } from './lines.ts'
import { clock, GapRow, GROUNDS, type RowProps } from './row.tsx'
import { type Segment, segmentsOf } from './segments.ts'
import type { LogViewing } from './viewing.ts'

/** UTF-16 code units of a line that a row shows. */
const CHARACTERS_MAX = 4_096
const MATCHES_MAX = 20

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

/** One row of a log with numbers, as high as a line of text, as wide as it has to be. */
export const Row = ({ row, ...rest }: RowProps) =>
  isGap(row) ? (
    // Below the texts of lines, whose number and time it does not have.
    <GapRow gap={row} noun={rest.viewing.noun} start={`calc(${rest.digits + 8}ch + 1.75rem)`} />
  ) : (
    <LineRow {...rest} line={row} />
  )

/** The text of a line with its colours, links and matches, cut where it is too long for a row. */
export function LineText({
  viewing,
  line,
  number,
  pattern,
  isCurrent,
  elementsMax,
}: Pick<RowProps, 'number' | 'pattern' | 'isCurrent' | 'elementsMax'> & {
  viewing: Pick<LogViewing, 'showWhole'>
  line: LogLine
}) {
  const { pieces, isCut } = useMemo(() => readEscapes(line.text, CHARACTERS_MAX), [line])
  const ranges = pattern ? rangesOf(textOf(pieces), pattern, MATCHES_MAX) : []
  const whole = wholeText(line.text, isCut)
  return (
    <>
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
    </>
  )
}

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
  // The same element again tells Preact that nothing in it changed.
  return useMemo(() => {
    return (
      <div
        class={`flex h-[1lh] border-s-3 ${GROUNDS[line.level]} ${isMarked ? 'bg-accent-tint' : ''}`}
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
            viewing.mark(line)
          }}
        >
          {number}
        </a>
        <time
          dateTime={line.at}
          title={`${line.at.replace('T', ' ').replace('Z', '')} UTC`}
          class="shrink-0 ps-3 text-soft select-none"
        >
          {clock(new Date(line.at))}
        </time>
        {line.level === 'ERROR' && <span class="sr-only select-none">Error:</span>}
        <LineText {...{ viewing, line, number, pattern, isCurrent, elementsMax }} />
      </div>
    )
  }, [viewing, line, number, pattern, isCurrent, isMarked, digits, elementsMax])
}
