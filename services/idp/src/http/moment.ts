import { html } from 'hono/html'
import type { Markup } from './page.ts'

const format = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'short', timeZone: 'UTC' })

/** An instant for people, to the minute. Without scripts the browser's time zone is not known, so it names its own. */
export const moment = (at: Date): Markup => html`<time datetime="${at.toISOString()}">${format.format(at)} UTC</time>`
