import { ApiError } from '@platform/errors/api-error'
import { html } from 'hono/html'
import type { ContentfulStatusCode } from 'hono/utils/http-status'
import type { Deps } from '../deps.ts'
import type { Ctx, Endpoint } from '../http/app.ts'
import { scriptPath } from './script.ts'
import { stylePath } from './style.ts'

/** Text that `html` has escaped. */
export type Markup = ReturnType<typeof html>

/** Features of the browser that pages do without, in the words of Permissions Policy. Unknown ones would be logged by browsers. */
const unusedFeatures = [
  'accelerometer',
  'autoplay',
  'camera',
  'display-capture',
  'encrypted-media',
  'fullscreen',
  'gamepad',
  'geolocation',
  'gyroscope',
  'hid',
  'identity-credentials-get',
  'idle-detection',
  'local-fonts',
  'magnetometer',
  'microphone',
  'midi',
  'otp-credentials',
  'payment',
  'picture-in-picture',
  'screen-wake-lock',
  'serial',
  'storage-access',
  'usb',
  'window-management',
  'xr-spatial-tracking',
]
const permissionsPolicy = [
  'publickey-credentials-create=(self)',
  'publickey-credentials-get=(self)',
  ...unusedFeatures.map((feature) => `${feature}=()`),
].join(', ')

interface Shown {
  title: string
  content: Markup
  status?: ContentfulStatusCode
  /**
   * Where a form of this page may end up by redirects, besides this site (a source of CSP). Such a page may stand in a popup of
   * the client, which loses sight of it, and of its own callback after it, by any Cross-Origin-Opener-Policy. Other pages have one.
   */
  formAction?: string | undefined
  /** The page offers what takes the script: passkeys, a password that can be shown, codes to take along. */
  hasScript?: boolean
}

/**
 * Answers with a page. A status from 400 on shows in its title, which screen readers say first. It works without scripts (but for
 * what passkeys need), is never framed, never cached, and tells other sites nothing of itself.
 */
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
        <title>${status >= 400 ? 'Problem: ' : ''}${title} – Platform account</title>
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
  outgoing.setHeader('permissions-policy', permissionsPolicy)
  if (formAction === undefined) outgoing.setHeader('cross-origin-opener-policy', 'same-origin')
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
