import { ArrowDown } from 'lucide-preact'
import type { ComponentType, RefObject } from 'preact'
import { lazy } from 'preact-iso'
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks'
import { number as figure } from '../words.ts'
import { LogBar } from './log-bar.tsx'
import type { LogLine, LogLines } from './lines.ts'
import { type Older, OlderBar } from './older.tsx'
import { END_PX, type LogPlace } from './place.ts'
import type { RowProps } from './row.tsx'
import { LogViewing } from './viewing.ts'

const WholeLine = lazy(async () => (await import('./whole-line.tsx')).WholeLine)

/** Elements that all rows together may take; the page around them has the rest of 2,000. */
const ELEMENTS_MAX = 1_400
/** Elements of a row without colours, links and matches. */
const ROW_ELEMENTS = 7
/** Returns a function that renders the component before the next paint, however often it is called until then. */
function useFrameRender(): () => void {
  const [, setFrame] = useState(0)
  const waiting = useRef<number | undefined>(undefined)
  useEffect(() => () => cancelAnimationFrame(waiting.current ?? 0), [])
  return useCallback(() => {
    waiting.current ??= requestAnimationFrame(() => {
      waiting.current = undefined
      setFrame((frame) => frame + 1)
    })
  }, [])
}

function useViewing<Line extends LogLine>({
  lines,
  isLive,
  noun,
  isNumbered,
  opensAtEnd = isLive,
  named,
}: LogViewProps<Line>): LogViewing<Line> {
  const render = useFrameRender()
  const viewing = useMemo(
    () => new LogViewing(lines, { isFollowing: opensAtEnd, ...(noun && { noun }), onChange: render }),
    [lines],
  )
  useEffect(() => () => viewing.close(), [viewing])
  useEffect(() => viewing.showLine(named), [viewing, named?.id])
  useEffect(() => {
    if (!isNumbered) return
    const showHash = (): void => viewing.showHash(location.hash)
    showHash()
    addEventListener('hashchange', showHash)
    return () => removeEventListener('hashchange', showHash)
  }, [viewing, isNumbered])
  return viewing
}

/** Tells the viewing how high the region is, in pixels, and how high a row is with the reader's own size of text. */
function useHeights<Line extends LogLine>(viewing: LogViewing<Line>, region: RefObject<HTMLElement>): void {
  useLayoutEffect(() => {
    const element = region.current as HTMLElement
    const measure = (): void =>
      viewing.resize(element.clientHeight, Number.parseFloat(getComputedStyle(element).lineHeight))
    measure()
    const observer = new ResizeObserver(measure)
    observer.observe(element)
    return () => observer.disconnect()
  }, [viewing])
}

/** Puts the region where the viewing says, and keeps the focus when the row that had it is gone. */
function useScroll<Line extends LogLine>(viewing: LogViewing<Line>, region: RefObject<HTMLElement>): void {
  const hadFocus = region.current?.contains(document.activeElement) ?? false
  useLayoutEffect(() => {
    const element = region.current as HTMLElement
    const { place, reveal } = viewing
    if (hadFocus && !element.contains(document.activeElement)) element.focus({ preventScroll: true })
    if (place.isMoved) {
      element.scrollTop = place.top
      place.moved(element.scrollTop)
    }
    viewing.reveal = undefined
    if (reveal === 'beginning') element.scrollLeft = 0
    if (reveal === 'match')
      element.querySelector('[data-current] mark')?.scrollIntoView({ block: 'nearest', inline: 'nearest' })
  })
}

function Rows<Line extends LogLine>({
  viewing,
  RowOf,
  isFitted,
}: {
  viewing: LogViewing<Line>
  isFitted: boolean
  RowOf: ComponentType<RowProps<Line>>
}) {
  const { lines, place, search } = viewing
  const spacer = useRef<HTMLDivElement>(null)
  const block = useRef<HTMLDivElement>(null)
  // The spacer never gets narrower: what was scrolled sideways would jump when a long line leaves.
  useLayoutEffect(() => {
    if (!spacer.current || !block.current) return
    const { offsetWidth } = block.current
    if (offsetWidth > spacer.current.offsetWidth) spacer.current.style.minWidth = `${offsetWidth}px`
  })
  const { first, end } = place.drawn
  const digits = Math.max(4, String(lines.numberOf(place.size)).length)
  const elementsMax = Math.max(4, Math.floor(ELEMENTS_MAX / place.drawnMax) - ROW_ELEMENTS)
  const rows = []
  for (let index = first; index < end; index++) {
    const row = lines.row(index)
    if (!row) break
    const number = lines.numberOf(index)
    rows.push(
      <RowOf
        key={index}
        viewing={viewing}
        row={row}
        number={number}
        pattern={search.pattern}
        isCurrent={viewing.current === index}
        isMarked={viewing.marked === row}
        digits={digits}
        elementsMax={elementsMax}
      />,
    )
  }
  return (
    <div ref={spacer} class="relative" style={{ height: `${place.size * place.rowHeight}px` }}>
      <div
        ref={block}
        class={`absolute min-w-full ${isFitted ? 'w-full' : 'w-max'}`}
        style={{ top: `${first * place.rowHeight}px` }}
      >
        {rows}
      </div>
    </div>
  )
}

/** Says how many lines came while the place is held, and leads to them. */
function Pill({ place, onPress }: { place: LogPlace; onPress: () => void }) {
  if (place.newRows === 0 && !place.isHeld) return null
  return (
    <button
      type="button"
      class="absolute bottom-4 left-1/2 inline-flex h-8 -translate-x-1/2 items-center gap-2 rounded-full bg-accent px-4 text-body font-medium whitespace-nowrap text-on-accent tabular-nums shadow-float pointer-coarse:h-11"
      onClick={onPress}
    >
      <ArrowDown size={16} strokeWidth={1.5} aria-hidden="true" />
      {place.newRows === 0 ? 'To the end' : `${figure(place.newRows)} new`}
    </button>
  )
}

interface LogViewProps<Line extends LogLine> {
  lines: LogLines<Line>
  /** Whether more lines may come; if so, the view opens at the end and follows it. */
  isLive: boolean
  /** What is shown, such as `Build log`. */
  label: string
  /** Of the text file that it can be saved as. */
  fileName: string
  /** What a line is called; `line` if nothing is said. */
  noun?: string
  /** Draws a row. */
  row: ComponentType<RowProps<Line>>
  /** Whether the address names a line by its number, as `#L123`. */
  isNumbered?: boolean
  /** Whether it opens at the end; by default if it is live. */
  opensAtEnd?: boolean
  /** A line to open at, if it is there or comes. */
  named?: Pick<LogLine, 'at' | 'id'> | undefined
  /** How lines before the first one come. */
  older?: Older | undefined
  /** What is said where there is no line. */
  emptyText?: string | undefined
  /** Whether rows are as wide as the region; otherwise each is as wide as its text. */
  isFitted?: boolean
  /** The height of rows is the height of a line of the region's text. */
  rowHeightClass?: string
}

/** From how many rows below the upper edge older lines are asked for. */
const OLDER_ROWS = 4

/**
 * Shows a log, with a field to find text in all of its lines. The page has only those that are in view. Another log wants another key.
 */
export function LogView<Line extends LogLine = LogLine>(props: LogViewProps<Line>) {
  const { lines, isLive, label, fileName, noun = 'line', older, emptyText } = props
  const { isFitted = false, rowHeightClass = '' } = props
  const region = useRef<HTMLDivElement>(null)
  const field = useRef<HTMLInputElement>(null)
  const viewing = useViewing(props)
  useHeights(viewing, region)
  useScroll(viewing, region)
  const findByKey = (event: KeyboardEvent): void => {
    const isFind = event.key === 'f' && (event.ctrlKey || event.metaKey)
    if (!isFind || event.target === field.current) return // pressed there, it opens the browser's own
    event.preventDefault()
    field.current?.select()
  }
  return (
    <div class="rounded-control border border-line bg-surface" onKeyDown={findByKey}>
      <LogBar viewing={viewing} field={field} isLive={isLive} fileName={fileName} />
      {older && <OlderBar older={older} size={lines.size} noun={noun} />}
      <div class="relative">
        <div
          ref={region}
          role="region"
          aria-label={label}
          tabIndex={0}
          dir="ltr"
          class={`${isLive ? 'h-[60vh] min-h-60' : 'max-h-[max(60vh,15rem)]'} overflow-auto rounded-b-control bg-sunken font-mono text-table ${rowHeightClass} [overflow-anchor:none] [tab-size:4]`}
          onScroll={({ currentTarget: { scrollTop, scrollHeight, clientHeight } }) => {
            const isUp = scrollTop < viewing.place.top
            viewing.scrollTo(scrollTop, scrollTop + clientHeight >= scrollHeight - END_PX)
            if (isUp && scrollTop < OLDER_ROWS * viewing.place.rowHeight) older?.load?.()
          }}
          onWheel={({ deltaX, deltaY }) => {
            if (-deltaY > Math.abs(deltaX)) viewing.hold()
          }}
        >
          {viewing.place.size === 0 ? (
            <p class="p-4 font-sans text-body text-soft">
              {emptyText ?? (isLive ? 'No lines yet.' : 'The log has no lines.')}
            </p>
          ) : (
            <Rows viewing={viewing} isFitted={isFitted} RowOf={props.row} />
          )}
        </div>
        <Pill
          place={viewing.place}
          onPress={() => {
            viewing.follow(true)
            region.current?.focus({ preventScroll: true })
          }}
        />
      </div>
      <p role="status" class="sr-only">
        {viewing.news}
      </p>
      {viewing.whole && (
        <WholeLine key={viewing.whole.line.id} {...viewing.whole} onClose={() => viewing.showWhole(undefined)} />
      )}
    </div>
  )
}
