import { type StandingName, standingWords } from '../words.ts'

const tones: Record<StandingName, string> = {
  live: 'text-ok',
  active: 'text-ok',
  pending: 'text-soft',
  queued: 'text-soft',
  starting: 'text-accent',
  building: 'text-accent',
  provisioning: 'text-accent',
  failed: 'text-bad',
  cancelled: 'text-soft',
  retired: 'text-soft',
}

/** How far the ring of a state has filled, of its circumference. */
const filled: Partial<Record<StandingName, number>> = { starting: 0.25, building: 0.5, provisioning: 0.75 }
const AROUND = 2 * Math.PI * 5

function Shape({ name }: { name: StandingName }) {
  const share = filled[name]
  if (share !== undefined)
    return (
      <g class="animate-turn origin-center">
        <circle cx="8" cy="8" r="5" stroke-opacity="0.25" />
        <circle cx="8" cy="8" r="5" stroke-dasharray={`${share * AROUND} ${AROUND}`} transform="rotate(-90 8 8)" />
      </g>
    )
  switch (name) {
    case 'pending':
      return <circle cx="8" cy="8" r="5" stroke-dasharray="1.6 2.33" />
    case 'live':
      return (
        <>
          <circle cx="8" cy="8" r="6" />
          <circle cx="8" cy="8" r="3" class="fill-current" stroke="none" />
        </>
      )
    case 'active':
      return <circle cx="8" cy="8" r="5" class="fill-current" />
    case 'failed':
      return <path d="M4.5 4.5l7 7m0-7l-7 7" />
    case 'cancelled':
      return <path d="M3.5 8h9" />
    case 'retired':
      return <rect x="4" y="4" width="8" height="8" />
    default:
      return <circle cx="8" cy="8" r="5" />
  }
}

/** A deployment's state: a shape, a word, a colour, in this order of what can be relied on. */
export function Standing({ name }: { name: StandingName }) {
  return (
    <span class={`inline-flex items-center gap-1.5 whitespace-nowrap ${tones[name]}`}>
      <svg class="size-4 shrink-0 fill-none stroke-current" stroke-width="2" viewBox="0 0 16 16" aria-hidden="true">
        <Shape name={name} />
      </svg>
      {standingWords[name]}
    </span>
  )
}
