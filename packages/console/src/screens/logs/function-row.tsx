import { useMemo } from 'preact/hooks'
import { isGap } from '../../log/lines.ts'
import { LineText } from '../../log/line-row.tsx'
import { clock, GapRow, GROUNDS, type RowProps } from '../../log/row.tsx'
import { isUuid, useAddress } from '../../platform/query.ts'
import { utcOf } from './ids.ts'
import type { FunctionLine } from './line-source.ts'

const nameClass = 'ms-3 max-w-[20ch] shrink-0 truncate select-none max-sm:max-w-[8ch]'

/** A line of a Function. Its time is its address. */
export function FunctionRow(props: RowProps<FunctionLine>) {
  const address = useAddress()
  const { viewing, row, number, pattern, isCurrent, isMarked, elementsMax } = props
  const lineHref = address({ line: row.id })
  const requestId = isGap(row) || row.requestId === null || !isUuid(row.requestId) ? null : row.requestId
  const requestHref = requestId === null ? undefined : address({ request: requestId })
  return useMemo(() => {
    if (isGap(row)) return <GapRow gap={row} noun={viewing.noun} />
    const { at, level, functionName } = row
    return (
      <div
        class={`flex h-[1lh] border-s-3 ${GROUNDS[level]} ${isMarked ? '!bg-accent-tint' : ''}`}
        data-marked={isMarked || undefined}
        data-current={isCurrent || undefined}
      >
        <a
          href={lineHref}
          aria-label={`Link to the line of ${clock(new Date(at))}`}
          class={`shrink-0 ps-2 select-none hover:underline focus-visible:-outline-offset-2 ${isMarked ? 'font-semibold text-accent' : 'text-soft'}`}
        >
          <time dateTime={at} title={utcOf(at)}>
            {clock(new Date(at))}
          </time>
        </a>
        {requestHref === undefined ? (
          <span class={`text-soft ${nameClass}`}>{functionName}</span>
        ) : (
          <a
            href={requestHref}
            title="Open the request"
            class={`text-accent hover:underline focus-visible:-outline-offset-2 ${nameClass}`}
          >
            {functionName}
          </a>
        )}
        {level === 'ERROR' && <span class="sr-only select-none">Error:</span>}
        <LineText {...{ viewing, line: row, number, pattern, isCurrent, elementsMax }} />
      </div>
    )
  }, [viewing, row, number, pattern, isCurrent, isMarked, elementsMax, lineHref, requestHref])
}
