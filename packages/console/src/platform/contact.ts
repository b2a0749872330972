import { computed, signal } from '@preact/signals'
import { now } from './now.ts'

/** What is shown is marked as old from here on. The platform's streams beat every 15 s, and pages ask at least every 20. */
const OLD_MS = 30_000

const lastAt = signal(Date.now())
const isOffline = signal(!navigator.onLine)
addEventListener('online', () => (isOffline.value = false))
addEventListener('offline', () => (isOffline.value = true))

/** The platform answered. An answer that it is too busy or broken says nothing about what is shown. */
export function heard(status: number): void {
  if (status < 500 && status !== 429) lastAt.value = Date.now()
}

/** How long ago the platform was last heard, in milliseconds, where that is long enough to be said. */
export const contactAgeMs = computed(() => {
  const ageMs = Math.max(0, now.value - lastAt.value)
  return ageMs >= OLD_MS || isOffline.value ? ageMs : undefined
})

export const offline = computed(() => isOffline.value)
