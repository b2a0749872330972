import type { ServerResponse } from 'node:http'
import type { HeaderPairs } from '@platform/build-output/router'

/** A page of the platform, for people, where no site answers. */
export interface SitePage {
  status: number
  title: string
  /** A sentence or two. */
  text: string
  /** For programs: sent as the header x-platform-error. */
  code?: string
  headers?: Record<string, string>
}

const escape = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')

const render = ({ status, title, text }: SitePage): string => `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<title>${escape(title)}</title>
<style>
  :root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }
  body { min-height: 90vh; display: grid; place-content: center; margin: 0; padding: 1rem }
  main { max-width: 28rem; border-inline-start: 3px solid light-dark(#d4d4d8, #3f3f46); padding-inline-start: 1.5rem }
  .status { margin: 0; font: 600 .875rem/1.5 ui-monospace, monospace; letter-spacing: .08em; opacity: .6 }
  h1 { margin: .25rem 0 .5rem; font-size: 1.5rem; line-height: 1.25; text-wrap: balance }
  p { margin: 0; opacity: .8 }
</style>
<main>
<p class="status">${status}</p>
<h1>${escape(title)}</h1>
<p>${escape(text)}</p>
</main>
</html>
`

const TYPE = 'text/html; charset=utf-8'

/** A page runs no scripts and cannot be framed. It is uncacheable, since a deployment changes what answers here. */
const headersOf = ({ code, headers }: SitePage): Record<string, string> => ({
  'content-security-policy': "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
  'x-content-type-options': 'nosniff',
  'cache-control': 'no-store',
  ...(code !== undefined && { 'x-platform-error': code }),
  ...headers,
})

/** Answers with a page. Returns the headers that were sent, and the page. */
export function sendPage(outgoing: ServerResponse, page: SitePage): { headers: Record<string, string>; body: Buffer } {
  const body = Buffer.from(render(page))
  const headers = { 'content-type': TYPE, 'content-length': String(body.length), ...headersOf(page) }
  outgoing.writeHead(page.status, headers).end(outgoing.req.method === 'HEAD' ? undefined : body)
  return { headers, body }
}

/** Headers about the page itself, which rules of a site do not change. */
const ofPage = new Set(['cache-control', 'content-security-policy', 'etag', 'last-modified', 'x-content-type-options'])

/** Adds the headers of a site's own rules to a page that the platform shows in its place. */
export function withRules(page: SitePage, headers: HeaderPairs): SitePage {
  const added = headers.filter(([name]) => !ofPage.has(name) && !name.startsWith('content-'))
  return { ...page, headers: Object.fromEntries(added) }
}

/** 404 for a hostname that nothing has. */
export const nothingHere: SitePage = {
  status: 404,
  title: 'Nothing is deployed here',
  text: 'No application answers at this address.',
  code: 'hostname_unknown',
}

/** 400 for a request whose host is missing, ambiguous or invalid. */
export const unreadableHost: SitePage = {
  status: 400,
  title: 'This address cannot be read',
  text: 'The request names no host, or more than one.',
  code: 'host_unreadable',
}

/** The page for a request that no deployment sees: one that is not valid HTTP, or CONNECT. text: why, without a full stop. */
export function unreadablePage(
  status: number,
  text: string,
): { type: string; body: string; headers: Record<string, string> } {
  const page: SitePage =
    status === 405
      ? { status, title: 'This method is not allowed', text: `${text}.` }
      : { status, title: 'This request cannot be read', text: `${text}.`, code: 'request_unreadable' }
  return { type: TYPE, body: render(page), headers: headersOf(page) }
}
