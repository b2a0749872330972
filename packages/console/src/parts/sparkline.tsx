import { counted, number } from '../words.ts'

interface Hour {
  requests: number
  errors: number
}

const WIDTH = 96
const HEIGHT = 24

/** Requests by the hour as bars, the failed part of each in red; its figures in words for whoever does not see it. */
export function Sparkline({ hours }: { hours: readonly Hour[] }) {
  const most = Math.max(1, ...hours.map(({ requests }) => requests))
  const sum = (member: keyof Hour): number => hours.reduce((all, hour) => all + hour[member], 0)
  const step = WIDTH / hours.length
  const tall = (value: number): number => (value === 0 ? 0 : Math.max(1, (value / most) * HEIGHT))
  const [requests, errors] = [sum('requests'), sum('errors')]
  return (
    <svg
      class="h-6 w-24 shrink-0"
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      role="img"
      aria-label={`${counted(requests, 'request')} and ${counted(errors, 'error')} in 24 hours, at most ${number(most)} in one`}
    >
      <path class="stroke-line" d={`M0 ${HEIGHT - 0.5}h${WIDTH}`} />
      {hours.map((hour, at) => (
        <g key={at}>
          <rect
            class="fill-series-1"
            x={at * step + 0.5}
            width={step - 1}
            y={HEIGHT - tall(hour.requests)}
            height={tall(hour.requests)}
          />
          <rect
            class="fill-bad"
            x={at * step + 0.5}
            width={step - 1}
            y={HEIGHT - tall(hour.errors)}
            height={tall(hour.errors)}
          />
        </g>
      ))}
    </svg>
  )
}
