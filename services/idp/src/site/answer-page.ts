import { ApiError } from '@platform/errors/api-error'
import { html } from 'hono/html'
import type { ContentfulStatusCode } from 'hono/utils/http-status'
import type { Deps } from '../deps.ts'
import type { Ctx, Endpoint } from '../http/app.ts'
import { scriptPath } from './script.ts'
import { stylePath } from './style.ts'

/** Text that `html` has escaped. */
export type Markup = ReturnType<typeof html>

interface Shown {
  title: string
  content: Markup
  status?: ContentfulStatusCode
  /** Where a form of this page may end up by redirects, besides this site (a source of CSP). */
  formAction?: string | undefined
  /** The page offers what takes the script. */
  hasScript?: boolean
}

/** Answers with a page. It works without scripts (but for what passkeys need), is never framed, never cached, and tells other sites nothing of itself. */
export async function answerPage(
  c: Ctx,
  deps: Deps,
  { title, content, status = 200, formAction, hasScript = false }: Shown,
): Promise<Response> {
  const csp = [
    "default-src 'none'",
    "style-src 'self'",
    ...(hasScript ? ["script-src 'self'"] : []),
    `form-action 'self'${formAction === undefined ? '' : ` ${formAction}`}`,
    "frame-ancestors 'none'",
    "base-uri 'none'",
  ]
  const page = await html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <title>${title} – Platform account</title>
        <link rel="stylesheet" href="${stylePath(deps)}" />
        ${hasScript ? html`<script type="module" src="${scriptPath(deps)}"></script>` : ''}
      </head>
      <body>
        <main>
          <p class="brand">Platform account</p>
          <h1>${title}</h1>
          ${content}
        </main>
        <footer>${new URL(deps.issuer).host}</footer>
      </body>
    </html>`
  // As in app.ts, not by c.header; and as a plain string, since what `html` makes would become a stream.
  const { outgoing } = c.env
  outgoing.setHeader('content-security-policy', csp.join('; '))
  outgoing.setHeader('referrer-policy', 'same-origin')
  outgoing.setHeader('cache-control', 'no-store')
  if (deps.issuer.startsWith('https:')) outgoing.setHeader('strict-transport-security', 'max-age=31536000')
  return c.html(String(page), status)
}

/**
 * A handler whose refusals are shown as a page. A 503 stays the JSON that clients of this service expect wherever the
 * database is away (D66).
 */
export const showRefusals =
  (handle: NonNullable<Endpoint['GET']>): NonNullable<Endpoint['GET']> =>
  async (c, deps) => {
    try {
      return await handle(c, deps)
    } catch (error) {
      if (!(error instanceof ApiError) || error.status >= 500) throw error
      for (const [name, value] of Object.entries(error.headers)) c.header(name, value)
      return answerPage(c, deps, {
        title: error.status === 429 ? 'Too many attempts' : 'That did not work',
        content: html`<p>${error.message}.</p>
          <p><a href="${deps.accountUrl}/">Go to your account</a></p>`,
        status: error.status as ContentfulStatusCode,
      })
    }
  }
