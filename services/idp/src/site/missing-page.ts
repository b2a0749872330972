import { NotFound } from '@platform/errors/api-error'
import { html } from 'hono/html'
import { accepts } from 'hono/accepts'
import type { Deps } from '../deps.ts'
import type { Ctx } from '../http/app.ts'
import { answerPage } from './answer-page.ts'
import { redirect } from './navigation.ts'
import type { Page } from './page.ts'

/** Paths of the protocol, whose clients are programs. */
const PROTOCOL = /^\/(?:oauth2|\.well-known)\//

/** True for a request that prefers HTML, as browsers do when somebody opens an address. */
const prefersHtml = (c: Ctx): boolean =>
  accepts(c, { header: 'Accept', supports: ['text/html', 'application/json'], default: 'application/json' }) ===
  'text/html'

/**
 * Answers a path that does not exist. Below the account site a browser gets a page that leads back, or a redirect if only the
 * trailing slash is wrong; at the root of the origin, a redirect to the site. Otherwise throws NotFound, which is rendered as
 * JSON.
 */
export function answerMissingPage(c: Ctx, deps: Deps, pages: readonly Page[]): Response | Promise<Response> {
  const { path } = c.req
  const isRead = c.req.method === 'GET' || c.req.method === 'HEAD'
  if (isRead && path === '/' && prefersHtml(c)) return redirect(c, `${deps.accountUrl}/`)
  const isOnSite = path === deps.accountPath || path.startsWith(`${deps.accountPath}/`)
  if (!isRead || !isOnSite || PROTOCOL.test(path) || !prefersHtml(c)) throw new NotFound('Page')

  const other = path.endsWith('/') ? path.slice(0, -1) : `${path}/`
  const page = pages.find((page) => `${deps.accountPath}${page.path}` === other)
  if (page) return redirect(c, `${deps.accountUrl}${page.path}${new URL(c.req.url).search}`)
  return answerPage(c, deps, {
    title: 'Page not found',
    status: 404,
    content: html`<p>There is nothing at this address. It may be misspelled, or the page may have moved.</p>
      <p><a href="${deps.accountUrl}/">Go to your account</a></p>`,
  })
}
