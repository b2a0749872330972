import type { Deployment } from '@platform/sdk'
import { Check, CircleDashed } from 'lucide-preact'
import { Standing } from '../../parts/standing.tsx'
import { type StandingName, standingWords } from '../../words.ts'

const steps = [
  'pending',
  'queued',
  'starting',
  'building',
  'provisioning',
  'active',
] as const satisfies readonly StandingName[]

const icon = { size: 16, strokeWidth: 1.5, 'aria-hidden': 'true' } as const

/** The way of a deployment, and where it is on it. A screen reader is told each new state. */
export function Steps({ deployment: { status } }: { deployment: Deployment }) {
  const at = steps.indexOf(status.toLowerCase() as (typeof steps)[number])
  return (
    <div>
      <p role="status" class="sr-only">
        {standingWords[steps[at] ?? 'failed']}
      </p>
      <ol class="flex flex-wrap gap-x-6 gap-y-2">
        {steps.map((name, n) => (
          <li key={name} aria-current={n === at ? 'step' : undefined}>
            {n === at ? (
              <Standing name={name} />
            ) : (
              <span class={`inline-flex items-center gap-1.5 ${n < at ? 'text-soft' : 'text-faint'}`}>
                {n < at ? <Check {...icon} /> : <CircleDashed {...icon} />}
                {standingWords[name]}
              </span>
            )}
          </li>
        ))}
      </ol>
    </div>
  )
}
