import { html } from 'hono/html'
import type { Markup } from './answer-page.ts'

/** Made with the first page that needs it: it takes 40 ms, a third of a start. */
let format: Intl.DateTimeFormat | undefined
const inWords = (at: Date): string => {
  format ??= new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'short', timeZone: 'UTC' })
  return format.format(at)
}

/** An instant for people, to the minute. Without scripts the browser's time zone is not known, so it names its own. */
export const moment = (at: Date): Markup => html`<time datetime="${at.toISOString()}">${inWords(at)} UTC</time>`

/** How long ago something of the last hour was, for people: pages show times in UTC, which few have on their clock. */
export function minutesAgo(at: Date, now: Date): string {
  const minutes = Math.max(0, Math.floor((now.getTime() - at.getTime()) / 60_000))
  if (minutes === 0) return 'Just now'
  return minutes === 1 ? '1 minute ago' : `${minutes} minutes ago`
}
