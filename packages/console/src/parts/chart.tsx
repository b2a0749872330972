import { useId, useState } from 'preact/hooks'

interface Series {
  name: string
  /** One value at each time; null where there is none. */
  values: readonly (number | null)[]
  /** Of the look: 1 to 4. */
  colour: 1 | 2 | 3 | 4
}

const WIDTH = 720
const HEIGHT = 160
const LEFT = 56
const RIGHT = 72
const TOP = 8
const BOTTOM = 24

const strokes = { 1: 'stroke-series-1', 2: 'stroke-series-2', 3: 'stroke-series-3', 4: 'stroke-series-4' } as const
const fills = { 1: 'fill-series-1', 2: 'fill-series-2', 3: 'fill-series-3', 4: 'fill-series-4' } as const

/** The least round number at or above a value: 1, 2 or 5 times a power of ten. */
function niceMax(value: number): number {
  if (value <= 0) return 1
  const power = 10 ** Math.floor(Math.log10(value))
  return ([1, 2, 5, 10].find((step) => step * power >= value) ?? 10) * power
}

/**
 * Lines over time: one axis, three grid lines, each line labelled at its end. The values of one moment stand below, under the pointer or by
 * the arrow keys.
 */
export function Chart({
  label,
  times,
  series,
  showValue,
  showTime,
}: {
  label: string
  times: readonly Date[]
  series: readonly Series[]
  showValue: (value: number) => string
  showTime: (at: Date) => string
}) {
  const id = useId()
  const [chosen, choose] = useState<number>()
  const max = niceMax(Math.max(0, ...series.flatMap(({ values }) => values.map((value) => value ?? 0))))
  const last = Math.max(1, times.length - 1)
  const x = (at: number): number => LEFT + (at / last) * (WIDTH - LEFT - RIGHT)
  const y = (value: number): number => TOP + (1 - value / max) * (HEIGHT - TOP - BOTTOM)
  const at = chosen === undefined ? undefined : Math.min(chosen, times.length - 1)
  const move = (by: number): void => choose(Math.min(times.length - 1, Math.max(0, (at ?? times.length - 1) + by)))
  const onKeyDown = (event: KeyboardEvent): void => {
    const by = { ArrowLeft: -1, ArrowRight: 1, Home: -times.length, End: times.length }[event.key]
    if (by === undefined) return
    event.preventDefault()
    move(by)
  }
  const onPointerMove = (event: PointerEvent): void => {
    const box = (event.currentTarget as SVGElement).getBoundingClientRect()
    const share = (((event.clientX - box.left) / box.width) * WIDTH - LEFT) / (WIDTH - LEFT - RIGHT)
    choose(Math.min(times.length - 1, Math.max(0, Math.round(share * last))))
  }
  /** Labels at the lines' ends, pushed apart where they would cover each other. */
  const ends = series
    .map(({ name, values, colour }) => ({ name, colour, top: y(values.findLast((value) => value !== null) ?? 0) }))
    .sort((a, b) => a.top - b.top)
  ends.forEach((end, n) => (end.top = Math.max(end.top, (ends[n - 1]?.top ?? -14) + 14)))
  return (
    <div>
      <svg
        class="h-40 w-full touch-pan-y overflow-visible font-sans text-note"
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        preserveAspectRatio="none"
        tabIndex={0}
        role="img"
        aria-label={`${label}. Arrow keys go through its values.`}
        aria-describedby={id}
        onKeyDown={onKeyDown}
        onPointerMove={onPointerMove}
        onPointerLeave={() => choose(undefined)}
        onBlur={() => choose(undefined)}
      >
        {[0, 0.5, 1].map((share) => (
          <g key={share}>
            <path
              class="stroke-line"
              vector-effect="non-scaling-stroke"
              d={`M${LEFT} ${y(share * max)}H${WIDTH - RIGHT}`}
            />
          </g>
        ))}
        {at !== undefined && (
          <path class="stroke-edge" vector-effect="non-scaling-stroke" d={`M${x(at)} ${TOP}V${HEIGHT - BOTTOM}`} />
        )}
        {series.map(({ name, values, colour }) => (
          <path
            key={name}
            class={`fill-none ${strokes[colour]}`}
            stroke-width="1.5"
            stroke-linejoin="round"
            vector-effect="non-scaling-stroke"
            d={lineOf(values, x, y)}
          />
        ))}
      </svg>
      <div class="relative -mt-40 h-40" aria-hidden="true">
        {[0, 0.5, 1].map((share) => (
          <span
            key={share}
            class="absolute start-0 -translate-y-1/2 text-end text-note text-soft tabular-nums"
            style={{ top: `${(y(share * max) / HEIGHT) * 100}%`, width: `${(LEFT / WIDTH) * 100 - 1}%` }}
          >
            {showValue(share * max)}
          </span>
        ))}
        {ends.map(({ name, colour, top }) => (
          <span
            key={name}
            class="absolute inline-flex -translate-y-1/2 items-center gap-1 ps-2 text-note text-soft"
            style={{ top: `${(top / HEIGHT) * 100}%`, left: `${((WIDTH - RIGHT) / WIDTH) * 100}%` }}
          >
            <svg class={`size-2 ${fills[colour]}`} viewBox="0 0 8 8">
              <circle cx="4" cy="4" r="4" />
            </svg>
            {name}
          </span>
        ))}
      </div>
      <output id={id} class="block min-h-5 text-note text-soft tabular-nums">
        {at === undefined
          ? times.length > 0 && `${showTime(times[0] as Date)} – ${showTime(times.at(-1) as Date)}`
          : `${showTime(times[at] as Date)} · ${series
              .map(({ name, values }) => `${name} ${values[at] == null ? '–' : showValue(values[at])}`)
              .join(' · ')}`}
      </output>
    </div>
  )
}

/** A path through the values that are there; it is broken where one is missing. */
function lineOf(values: readonly (number | null)[], x: (at: number) => number, y: (value: number) => number): string {
  let path = ''
  let isDrawing = false
  values.forEach((value, at) => {
    if (value !== null) {
      path += `${isDrawing ? 'L' : 'M'}${x(at).toFixed(1)} ${y(value).toFixed(1)}`
      // A value without neighbours is a dot.
      if (!isDrawing && values[at + 1] == null) path += 'h0.01'
    }
    isDrawing = value !== null
  })
  return path
}
