import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { type EncodedContent, encodedContent } from '../../http/encoded-content.ts'

/** A file of the reference page. Its name changes with its content, so it may be cached forever. */
interface Asset {
  name: string
  type: string
  content: EncodedContent
}

/**
 * Configures Scalar from the page's metadata; everything that would contact another origin is off. Runs before Scalar, which sets
 * the nonce on its first style element only.
 */
const start = `const nonce = document.querySelector('meta[property="csp-nonce"]').content
const createElement = document.createElement.bind(document)
document.createElement = (name, options) => {
  const element = createElement(name, options)
  if (element instanceof HTMLStyleElement) element.nonce = nonce
  return element
}

const { clientId, redirectUri, scopes } = JSON.parse(document.getElementById('configuration').textContent)

// Scalar sends every parameter that has an example: here those that an operation needs, until a reader ticks others. Without
// a client nobody can sign in, so a token is all there is to enter.
function adapt(openApi) {
  const operations = Object.values(openApi.paths).flatMap((methods) => Object.values(methods))
  for (const operation of operations) {
    for (const parameter of operation.parameters ?? []) {
      const { required, schema } = parameter
      const value = schema.example ?? schema.default ?? ''
      if (!required) parameter.examples = { default: { value, 'x-disabled': true } }
    }
    if (!clientId) operation.security = operation.security.filter(({ oauth2 }) => !oauth2)
  }
  if (!clientId) delete openApi.components.securitySchemes.oauth2
  return openApi
}

// Scalar's first request is for the document; later ones are those that a reader sends.
let hasDocument = false
async function customFetch(input, init) {
  const answer = await fetch(input, init)
  if (hasDocument || !answer.ok) return answer
  hasDocument = true
  return Response.json(adapt(await answer.json()))
}

const signIn = {
  'x-scalar-client-id': clientId,
  'x-scalar-redirect-uri': redirectUri,
  'x-usePkce': 'SHA-256',
  selectedScopes: scopes,
}
const others = ['c', 'clojure', 'csharp', 'dart', 'fsharp', 'go', 'http', 'java', 'julia', 'kotlin', 'node', 'objc', 'ocaml', 'php', 'powershell', 'python', 'r', 'ruby', 'rust', 'swift']
document.addEventListener('DOMContentLoaded', () => {
  Scalar.createApiReference('#reference', {
    url: '/docs/json',
    customFetch,
    authentication: {
      preferredSecurityScheme: 'bearer',
      securitySchemes: clientId ? { oauth2: { flows: { authorizationCode: signIn } } } : {},
    },
    defaultHttpClient: { targetKey: 'shell', clientKey: 'curl' },
    hiddenClients: {
      ...Object.fromEntries(others.map((language) => [language, true])),
      shell: ['httpie', 'wget'],
      js: ['axios', 'jquery', 'ofetch', 'xhr'],
    },
    orderSchemaPropertiesBy: 'preserve',
    documentDownloadType: 'direct',
    hideClientButton: true,
    showDeveloperTools: 'never',
    withDefaultFonts: false,
    telemetry: false,
    agent: { disabled: true },
    mcp: { disabled: true },
  })
})
`

const icon = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" fill="#2a2f45"/><path d="M9 8h14v3H9zm0 7h14v3H9zm0 7h9v3H9z" fill="#fff"/></svg>
`

function assetOf(stem: string, extension: string, type: string, bytes: Buffer, read: () => Promise<Buffer>): Asset {
  const hash = createHash('sha256').update(bytes).digest('hex').slice(0, 16)
  return { name: `${stem}.${hash}.${extension}`, type, content: encodedContent(read) }
}

function inMemory(stem: string, extension: string, type: string, text: string): Asset {
  const bytes = Buffer.from(text)
  return assetOf(stem, extension, type, bytes, async () => bytes)
}

const javascript = 'text/javascript; charset=utf-8'

async function openAssets(): Promise<{ scalar: Asset; start: Asset; icon: Asset }> {
  const folder = dirname(createRequire(import.meta.url).resolve('@scalar/api-reference'))
  const read = () => readFile(join(folder, 'browser/standalone.js'))
  return {
    scalar: assetOf('scalar', 'js', javascript, await read(), read),
    start: inMemory('start', 'js', javascript, start),
    icon: inMemory('icon', 'svg', 'image/svg+xml', icon),
  }
}

let opened: ReturnType<typeof openAssets> | undefined

/**
 * The files of the reference page. Opened on first use: the bundle has 4 MiB, which a service whose reference nobody reads need
 * not load.
 */
export function referenceAssets(): ReturnType<typeof openAssets> {
  if (opened) return opened
  const assets = openAssets()
  opened = assets
  assets.catch(() => (opened = undefined)) // the next request tries again
  return assets
}
