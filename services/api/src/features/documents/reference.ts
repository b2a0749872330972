import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { z } from '@hono/zod-openapi'
import { NotFound } from '@platform/errors/api-error'
import { openEndpoint } from '../../http/endpoint.ts'
import { admitAnyone, type Exchange, type Reply } from '../../http/exchange.ts'

const html = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Platform API reference</title>
<link rel="icon" href="/docs/assets/favicon-32x32.png">
<link rel="stylesheet" href="/docs/assets/swagger-ui.css">
<script src="/docs/assets/swagger-ui-bundle.js" defer></script>
<script src="/docs/assets/start.js" defer></script>
</head>
<body><main id="reference"></main><noscript>The reference needs JavaScript; the document itself is at <a href="/docs/json">/docs/json</a>.</noscript></body>
</html>
`

const start = `window.addEventListener('DOMContentLoaded', () => {
  SwaggerUIBundle({ url: '/docs/json', dom_id: '#reference', deepLinking: true, docExpansion: 'list', filter: true, tryItOutEnabled: true, persistAuthorization: false, validatorUrl: null })
})
`

/** Everything comes from this origin; Swagger UI writes style attributes and inline SVG icons, and nothing else inline. */
const policy = (idpUrl: string) =>
  `default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self'; connect-src 'self' ${idpUrl}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`

const types = { css: 'text/css; charset=utf-8', js: 'text/javascript; charset=utf-8', png: 'image/png' } as const
const assets: Record<string, { type: keyof typeof types; fromPackage: boolean }> = {
  'swagger-ui.css': { type: 'css', fromPackage: true },
  'swagger-ui-bundle.js': { type: 'js', fromPackage: true },
  'favicon-32x32.png': { type: 'png', fromPackage: true },
  'start.js': { type: 'js', fromPackage: false },
}

const swaggerUi = (): string => dirname(createRequire(import.meta.url).resolve('swagger-ui-dist/package.json'))

/** Read when asked for: the bundle is large, and a service that nobody reads the reference of need not hold it. */
async function asset(exchange: Exchange): Promise<Reply> {
  await admitAnyone(exchange)
  const name = exchange.c.req.param('file') ?? ''
  const found = Object.hasOwn(assets, name) ? assets[name] : undefined
  if (!found) throw new NotFound('Asset')
  const body = found.fromPackage ? readFileSync(join(swaggerUi(), name)) : start
  return { status: 200, headers: { 'content-type': types[found.type], 'cache-control': 'public, max-age=3600' }, body }
}

const AnyObject = z.record(z.string(), z.unknown())

export const referenceEndpoints = [
  openEndpoint({
    operation: 'getOpenApiDocument',
    on: 'GET /docs/json',
    tag: 'Reference',
    summary: 'This document',
    description: 'OpenAPI 3.0.3, generated from the running routes.',
    responses: { 200: { description: 'The document', content: { 'application/json': { schema: AnyObject } } } },
    async run(exchange) {
      await admitAnyone(exchange)
      const headers = {
        'content-type': 'application/json; charset=UTF-8',
        'cache-control': 'public, max-age=60',
        'access-control-allow-origin': '*',
      }
      return { status: 200, headers, body: exchange.deps.document }
    },
  }),
  openEndpoint({
    operation: 'getReference',
    on: 'GET /docs',
    tag: 'Reference',
    summary: 'The interactive reference',
    description: 'A page that shows the document and can try it.',
    responses: { 200: { description: 'The page', content: { 'text/html': { schema: z.string() } } } },
    async run(exchange) {
      await admitAnyone(exchange)
      const headers = {
        'content-type': 'text/html; charset=UTF-8',
        'content-security-policy': policy(exchange.deps.idpUrl),
        'referrer-policy': 'no-referrer',
        'cache-control': 'no-cache',
      }
      return { status: 200, headers, body: html }
    },
  }),
  openEndpoint({
    operation: 'getReferenceAsset',
    on: 'GET /docs/assets/{file}',
    tag: 'Reference',
    summary: 'Files of the reference page',
    description: 'Styles and scripts, served from here so that the page needs no other host.',
    hide: true,
    responses: { 200: { description: 'The file' } },
    fails: [404],
    run: asset,
  }),
]
