import { html } from 'hono/html'
import type { Markup } from './answer-page.ts'

/** Created by the first page that needs it: it takes 40 ms, a third of the service's start. */
let format: Intl.DateTimeFormat | undefined
const inWords = (time: Date): string => {
  format ??= new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'short', timeZone: 'UTC' })
  return format.format(time)
}

/** A time for people, to the minute. Without scripts the browser's time zone is unknown, so it names UTC. */
export const moment = (time: Date): Markup => html`<time datetime="${time.toISOString()}">${inWords(time)} UTC</time>`

/** How many minutes ago something happened, for people: pages show times in UTC, which few have on their clock. */
export function minutesAgo(time: Date, now: Date): string {
  const minutes = Math.max(0, Math.floor((now.getTime() - time.getTime()) / 60_000))
  if (minutes === 0) return 'Just now'
  return minutes === 1 ? '1 minute ago' : `${minutes} minutes ago`
}
