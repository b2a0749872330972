import { signal } from '@preact/signals'
import type { Plan } from './plan.ts'

/** What this window sends, whichever page it shows meanwhile; it sends one thing at a time. */
export interface Sending {
  plan: Plan
  applicationId: string
  /** The address of the application's page. */
  path: string
  sentBytes: number
  /** It has ended, and nothing was deployed. */
  failure?: Error
  /** Ends it, and forgets it. */
  stop: () => void
}

export const sending = signal<Sending | undefined>(undefined)
