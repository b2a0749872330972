import { html } from 'hono/html'
import type { Deps } from '../../deps.ts'
import type { Ctx } from '../../http/app.ts'
import { answerPage } from '../../site/answer-page.ts'

/** For how long a failure to read an API's keys is remembered. */
const RETRY_SECONDS = 10

/**
 * Answers with 503 while the keys of the API that invites cannot be read. Nothing is lost by that.
 *
 * url: of the page that was asked for, to try again.
 */
export function answerUnchecked(c: Ctx, deps: Deps, url: string): Promise<Response> {
  c.header('retry-after', String(RETRY_SECONDS))
  return answerPage(c, deps, {
    title: 'This invitation cannot be checked right now',
    status: 503,
    content: html`<p>The service that it comes from does not answer. Nothing is lost: try again in a moment.</p>
      <p><a class="button" href="${url}">Try again</a></p>`,
  })
}
