import { ApiError } from '@platform/errors/api-error'
import { markSvg } from '@platform/look/mark'
import { platformName } from '@platform/look/name'
import { html, raw } from 'hono/html'
import type { ContentfulStatusCode } from 'hono/utils/http-status'
import type { Deps } from '../deps.ts'
import type { Ctx, Endpoint } from '../http/app.ts'
import { scriptPath } from './script.ts'
import { iconPath, stylePath } from './style.ts'

/** Text that `html` has escaped. */
export type Markup = ReturnType<typeof html>

/** Browser features that pages do not use, in the words of Permissions Policy. Browsers would log unknown ones. */
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
  /** The title with markup, if it has any. */
  heading?: Markup
  content: Markup
  status?: ContentfulStatusCode
  /**
   * Where redirects after a form of this page may end, besides this site (a CSP source). Such a page may stand in a popup of
   * the client, so it has no Cross-Origin-Opener-Policy: the client would lose its handle on the popup, and on its own
   * callback later. Other pages send one.
   */
  formAction?: string | undefined
  /** The page offers something that the script does: passkeys, a show-password button, saving recovery codes, times. */
  hasScript?: boolean
  /** The home of an account or a list in it: wider than a page that asks one thing, with a way to sign out. */
  isWide?: boolean
}

/** What the pages of a service have in common, made once: it would be a tenth of the cost of a page. */
const frames = new WeakMap<Deps, ReturnType<typeof makeFrame>>()

function makeFrame(deps: Deps) {
  const { accountUrl, issuer } = deps
  const brand = raw(`${markSvg}${platformName}`)
  return {
    links: raw(`<link rel="icon" href="${iconPath(deps)}" /><link rel="stylesheet" href="${stylePath(deps)}" />`),
    script: raw(`<script type="module" src="${scriptPath(deps)}"></script>`),
    header: html`<header><p class="brand">${brand}</p></header>`,
    headerOfAccount: html`<header>
      <a class="brand" href="${accountUrl}/">${brand}</a>
      <a href="${accountUrl}/sign-out">Sign out</a>
    </header>`,
    footer: html`<footer>${new URL(issuer).host}</footer>`,
  }
}

function frameOf(deps: Deps): ReturnType<typeof makeFrame> {
  const frame = frames.get(deps) ?? makeFrame(deps)
  frames.set(deps, frame)
  return frame
}

const policyOf = (hasScript: boolean, formAction: string | undefined): string =>
  `default-src 'none'; style-src 'self'; font-src 'self'; img-src 'self'; ${hasScript ? "script-src 'self'; " : ''}form-action 'self'${
    formAction === undefined ? '' : ` ${formAction}`
  }; frame-ancestors 'none'; base-uri 'none'`

/**
 * Answers with a page. From status 400 on, the title shows the status, since screen readers say it first. The page works
 * without scripts (except for passkeys), is never framed, never cached, and sends other sites no referrer.
 */
export async function answerPage(
  c: Ctx,
  deps: Deps,
  { title, heading, content, status = 200, formAction, hasScript = false, isWide = false }: Shown,
): Promise<Response> {
  const frame = frameOf(deps)
  // The dash is an entity: a page of Latin 1 alone is joined and sent faster.
  const page = await html`<!doctype html>
    <html lang="en" ${hasScript ? raw(`data-now="${deps.now().toISOString()}"`) : ''}>
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <title>${status >= 400 ? 'Problem: ' : ''}${title} &ndash; ${platformName}</title>
        ${frame.links} ${hasScript ? frame.script : ''}
      </head>
      <body>
        <main ${isWide ? raw('class="wide"') : ''}>
          ${isWide ? frame.headerOfAccount : frame.header}
          <h1>${heading ?? title}</h1>
          ${content}
        </main>
        ${frame.footer}
      </body>
    </html>`
  // As in app.ts, not by c.header; and as a plain string, since the value that `html` makes would become a stream.
  const { outgoing } = c.env
  outgoing.setHeader('content-security-policy', policyOf(hasScript, formAction))
  outgoing.setHeader('referrer-policy', 'same-origin')
  outgoing.setHeader('permissions-policy', permissionsPolicy)
  if (formAction === undefined) outgoing.setHeader('cross-origin-opener-policy', 'same-origin')
  outgoing.setHeader('cache-control', 'no-store')
  if (deps.issuer.startsWith('https:')) outgoing.setHeader('strict-transport-security', 'max-age=31536000')
  return c.html(String(page), status)
}

/**
 * Makes a handler show its refusals as a page. A 503 stays the JSON that clients of this service expect when the database is
 * unavailable (D66).
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
