import { randomBytes } from 'node:crypto'
import { z } from '@hono/zod-openapi'
import { apiScopes } from '@platform/auth/scopes'
import { NotFound } from '@platform/errors/api-error'
import { markSvg } from '@platform/look/mark'
import { platformName } from '@platform/look/name'
import { html, raw } from 'hono/html'
import type { OverviewDeps } from '../deps.ts'
import { openEndpoint } from '../deps.ts'
import { throttleAddress, type Exchange, header, type Reply } from '../../../http/exchange.ts'
import { renderFirstPage } from './first-page.ts'
import { referenceAssets } from './reference-assets.ts'

type PageDeps = Pick<OverviewDeps, 'publicUrl' | 'idpUrl' | 'consoleUrl' | 'docsClientId' | 'clientsFolder'>

/**
 * The reference page. It loads everything from this origin, and its policy enforces that. Style elements and the style sheet
 * carry the page's nonce, and Vue sets style attributes.
 */
async function describePage(deps: PageDeps): Promise<{ page: string; policy: string }> {
  const { publicUrl, idpUrl, consoleUrl, docsClientId } = deps
  const assets = await referenceAssets()
  const nonce = randomBytes(16).toString('base64')
  const assetPath = (asset: { name: string }) => `/docs/assets/${asset.name}`
  const configuration = {
    clientId: docsClientId,
    redirectUri: `${publicUrl}/docs`,
    scopes: apiScopes,
    baseUrl: publicUrl,
  }
  const page = await html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta property="csp-nonce" content="${nonce}" />
        <title>${platformName} API reference</title>
        <link rel="icon" href="${assetPath(assets.icon)}" />
        <link rel="stylesheet" href="${assetPath(assets.style)}" nonce="${nonce}" />
        <script id="configuration" type="application/json">
          ${raw(JSON.stringify(configuration).replaceAll('<', String.raw`\u003c`))}
        </script>
        <script src="${assetPath(assets.start)}" defer></script>
        <script src="${assetPath(assets.scalar)}" defer></script>
      </head>
      <body>
        <nav class="bar" aria-label="${platformName}">
          <a href="${consoleUrl ?? idpUrl}/">${raw(markSvg)} ${platformName}</a>
          <span>API reference</span>
        </nav>
        ${renderFirstPage(deps)}
        <div id="reference"></div>
      </body>
    </html> `
  const policy = [
    "default-src 'none'",
    "script-src 'self'",
    `style-src-elem 'nonce-${nonce}'`,
    "style-src-attr 'unsafe-inline'",
    "img-src 'self' data:",
    "font-src 'self'",
    `connect-src 'self' ${publicUrl} ${idpUrl}`,
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; ')
  return { page: page.toString(), policy }
}

async function sendAsset(exchange: Exchange<OverviewDeps>): Promise<Reply> {
  await throttleAddress(exchange)
  const name = exchange.c.req.param('file')
  const { fonts, ...files } = await referenceAssets()
  const asset = [...Object.values(files), ...fonts].find((one) => one.name === name)
  if (!asset) throw new NotFound('Asset')
  const { headers, body } = await asset.content(header(exchange.incoming, 'accept-encoding'))
  const kept = { 'content-type': asset.type, 'cache-control': 'public, max-age=31536000, immutable' }
  return { status: 200, headers: { ...headers, ...kept }, body }
}

const AnyObject = z.record(z.string(), z.unknown())

export const referenceEndpoints = [
  openEndpoint({
    operation: 'getOpenApiDocument',
    on: 'GET /docs/json',
    tag: 'Reference',
    summary: 'Get the OpenAPI document',
    description: 'This document, OpenAPI 3.0.3, generated from the running routes.',
    responses: { 200: { description: 'The document', content: { 'application/json': { schema: AnyObject } } } },
    async run(exchange) {
      await throttleAddress(exchange)
      const { headers, body } = await exchange.deps.document(header(exchange.incoming, 'accept-encoding'))
      const shared = {
        'content-type': 'application/json; charset=UTF-8',
        'cache-control': 'public, max-age=60',
        'access-control-allow-origin': '*',
      }
      return { status: 200, headers: { ...headers, ...shared }, body }
    },
  }),
  openEndpoint({
    operation: 'getReference',
    on: 'GET /docs',
    tag: 'Reference',
    summary: 'Get the interactive reference',
    description: 'An HTML page to read this document and to send requests.',
    responses: { 200: { description: 'The page', content: { 'text/html': { schema: z.string() } } } },
    async run(exchange) {
      await throttleAddress(exchange)
      const { page, policy } = await describePage(exchange.deps)
      const headers = {
        'content-type': 'text/html; charset=UTF-8',
        'content-security-policy': policy,
        'referrer-policy': 'no-referrer',
        'cache-control': 'no-cache',
      }
      return { status: 200, headers, body: page }
    },
  }),
  openEndpoint({
    operation: 'getReferenceAsset',
    on: 'GET /docs/assets/{file}',
    tag: 'Reference',
    summary: 'Get a file of the reference page',
    description: 'Scripts, style, fonts and the icon, served from here so that the page needs no other host.',
    hide: true,
    responses: { 200: { description: 'The file' } },
    fails: [404],
    run: sendAsset,
  }),
]
