import { useId, useState } from 'preact/hooks'

interface Series {
  name: string
  /** One value at each time; null where there is none. */
  values: readonly (number | null)[]
  /** Of the look: 1 to 4. */
  colour: 1 | 2 | 3 | 4
}

const WIDTH = 600
const HEIGHT = 144
/** Above the highest value and below the lowest, for the lines' own width. */
const EDGE = 8
/** Between two labels, at least. */
const LABEL = 16

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
  const x = (at: number): number => (at / last) * WIDTH
  const y = (value: number): number => EDGE + (1 - value / max) * (HEIGHT - 2 * EDGE)
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
    const share = (event.clientX - box.left) / box.width
    choose(Math.min(times.length - 1, Math.max(0, Math.round(share * last))))
  }
  /** Labels at the lines' ends, pushed apart where they would cover each other. */
  const ends = series
    .map(({ name, values, colour }) => ({ name, colour, top: y(values.findLast((value) => value !== null) ?? 0) }))
    .sort((a, b) => a.top - b.top)
  ends.forEach((end, n) => (end.top = Math.max(end.top, (ends[n - 1]?.top ?? -LABEL) + LABEL)))
  // The last one stands at the axis at the lowest: below it are the times.
  ends.forEach((end, n) => (end.top = Math.min(end.top, y(0) - (ends.length - 1 - n) * LABEL)))
  return (
    <div>
      <div class="flex h-36 gap-2 text-note text-soft">
        <div class="relative w-12 shrink-0 tabular-nums" aria-hidden="true">
          {[0, 0.5, 1].map((share) => (
            <span
              key={share}
              class="absolute end-0 -translate-y-1/2 whitespace-nowrap"
              style={{ top: `${(y(share * max) / HEIGHT) * 100}%` }}
            >
              {showValue(share * max)}
            </span>
          ))}
        </div>
        <svg
          class="h-full w-0 grow touch-pan-y overflow-visible"
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
            <path
              key={share}
              class="stroke-line"
              vector-effect="non-scaling-stroke"
              d={`M0 ${y(share * max)}H${WIDTH}`}
            />
          ))}
          {at !== undefined && (
            <path class="stroke-edge" vector-effect="non-scaling-stroke" d={`M${x(at)} 0V${HEIGHT}`} />
          )}
          {series.map(({ name, values, colour }) => (
            <path
              key={name}
              class={`fill-none ${strokes[colour]}`}
              stroke-width="2"
              stroke-linejoin="round"
              stroke-linecap="round"
              vector-effect="non-scaling-stroke"
              d={lineOf(values, x, y)}
            />
          ))}
        </svg>
        <div class="relative w-20 shrink-0" aria-hidden="true">
          {ends.map(({ name, colour, top }) => (
            <span
              key={name}
              class="absolute inline-flex -translate-y-1/2 items-center gap-1 whitespace-nowrap"
              style={{ top: `${(top / HEIGHT) * 100}%` }}
            >
              <svg class={`size-2 ${fills[colour]}`} viewBox="0 0 8 8">
                <circle cx="4" cy="4" r="4" />
              </svg>
              {name}
            </span>
          ))}
        </div>
      </div>
      <output id={id} class="mt-1 block min-h-5 ps-14 text-note text-soft tabular-nums">
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
      // A value without neighbours would be a dot that nobody sees.
      if (!isDrawing && values[at + 1] == null) path += 'm-4 0h8'
    }
    isDrawing = value !== null
  })
  return path
}
