import { isGap } from '../../log/lines.ts'
import { clock, GapRow, GROUNDS, type RowProps } from '../../log/row.tsx'
import { useAddress } from '../../platform/query.ts'
import { duration } from '../../words.ts'
import { utcOf } from './ids.ts'
import type { RequestLine } from './request-source.ts'
import { toneOf } from './tones.ts'

/** A request: press it, and it opens beside the list. */
export function RequestRow({ viewing, row, isCurrent, isMarked }: RowProps<RequestLine>) {
  const address = useAddress()
  if (isGap(row)) return <GapRow gap={row} noun={viewing.noun} />
  const { id, at, level, method, status, path, durationMs, cacheStatus } = row
  const isFound = viewing.search.pattern?.test(row.text) === true
  return (
    <a
      href={address({ request: id })}
      aria-current={isMarked ? 'true' : undefined}
      data-current={isCurrent || undefined}
      class={`flex h-[1lh] w-full items-stretch gap-x-3 max-sm:gap-x-2 border-s-3 ps-2 pe-3 hover:bg-surface focus-visible:-outline-offset-2 ${GROUNDS[level]} ${isMarked ? '!bg-accent-tint' : isCurrent ? '!bg-accent-tint' : ''}`}
    >
      <time dateTime={at} title={utcOf(at)} class="shrink-0 text-soft">
        {clock(new Date(at))}
      </time>
      <span class="w-[4ch] shrink-0 truncate">{method}</span>
      <span class={`shrink-0 font-semibold ${toneOf(status)}`}>{status}</span>
      <span class={`min-w-0 grow truncate ${isFound ? 'underline decoration-accent decoration-2' : ''}`} title={path}>
        {path}
      </span>
      <span class="w-[6ch] shrink-0 truncate text-end text-soft max-sm:hidden">{cacheStatus ?? ''}</span>
      <span class="w-[9ch] shrink-0 text-end text-soft tabular-nums max-sm:hidden">{duration(durationMs)}</span>
    </a>
  )
}
