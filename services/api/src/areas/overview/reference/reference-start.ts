/**
 * Configures Scalar from the page's metadata; everything that would contact another origin is off. Runs before Scalar, which sets
 * the nonce on its first style element only. Once Scalar shows the document, the first page moves to its head.
 */
export const startScript = `const nonce = document.querySelector('meta[property="csp-nonce"]').content
const createElement = document.createElement.bind(document)
document.createElement = (name, options) => {
  const element = createElement(name, options)
  if (element instanceof HTMLStyleElement) element.nonce = nonce
  return element
}

const { clientId, redirectUri, scopes, baseUrl } = JSON.parse(document.getElementById('configuration').textContent)

// The example that a reader needs: of an object the members that are required, or all if none is. Undefined for what may be anything.
function exampleOf(schema, schemas) {
  if (schema.$ref) return exampleOf(schemas[schema.$ref.split('/').at(-1)], schemas)
  if (schema.example !== undefined) return schema.example
  if (schema.enum) return schema.enum[0]
  if (schema.default !== undefined) return schema.default
  if (schema.type === 'array') return [exampleOf(schema.items, schemas)]
  if (schema.type === 'boolean') return true
  if (schema.type !== 'object') return undefined
  const { properties = {}, required = Object.keys(properties) } = schema
  return Object.fromEntries(required.map((name) => [name, exampleOf(properties[name], schemas)]))
}

// JSON as JavaScript is written: no quotes around names, single ones around texts.
const literal = (value) =>
  JSON.stringify(value, null, 2)
    .replace(/^( *)"(\\w+)":/gm, '$1$2:')
    .replace(/"((?:[^"\\\\]|\\\\.)*)"/g, (text, inner) => (/['\\\\]/.test(inner) ? text : "'" + inner + "'"))

// A function of the SDK has the name of its operation and takes parameters side by side with the body.
function sdkSample({ operationId, parameters = [], requestBody, responses }, schemas) {
  const json = requestBody?.content['application/json']
  const needed = parameters.filter((parameter) => parameter.required && parameter.in !== 'header')
  const members = {
    ...Object.fromEntries(needed.map(({ name, schema }) => [name, exampleOf(schema, schemas)])),
    ...(json && { body: json.example ?? exampleOf(json.schema, schemas) }),
  }
  const given = Object.keys(members).length > 0 ? ', ' + literal(members) : ''
  const successes = Object.entries(responses).filter(([status]) => status < 300)
  const contents = successes.flatMap(([, { content = {} }]) => Object.keys(content))
  const isStream = contents.length === 1 && contents[0] === 'text/event-stream'
  const result = contents.length > 0 ? 'const answer = ' : ''
  const call = isStream
    ? \`const events = follow(\${operationId}, platform\${given})
for await (const event of events) console.log(event)\`
    : \`\${result}await \${operationId}(platform\${given})\`
  const names = isStream ? ['follow', operationId] : [operationId]
  return \`import { \${names.join(', ')}, Platform, staticToken } from '@platform/sdk'

const platform = new Platform({
  baseUrl: '\${baseUrl}',
  credential: staticToken(token),
})
\${call}\`
}

// The SDK leaves these out: its credentials exchange keys by themselves, and the reference is a page.
const notInSdk = ['exchangeApiKey', 'getReference', 'openInvitation']

// Scalar sends every parameter that has an example: here those that an operation needs, until a reader ticks others. Without
// a client nobody can sign in, so a token is all there is to enter.
function adapt(openApi) {
  const operations = Object.values(openApi.paths).flatMap((methods) => Object.values(methods))
  for (const operation of operations) {
    if (!notInSdk.includes(operation.operationId)) {
      const source = sdkSample(operation, openApi.components.schemas)
      operation['x-codeSamples'] = [{ lang: 'typescript', label: 'SDK', source }]
    }
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

// A view of Scalar's that renders nothing itself: what it holds is the first page, which the server has rendered.
const firstPage = {
  inheritAttrs: false,
  render: () => null,
  mounted() {
    this.$el.parentElement.append(document.getElementById('first-page'))
  },
}

// The button presses the one of Scalar's authentication panel, and shows the panel, which will hold the token.
function signIn() {
  const panel = document.querySelector('.scalar-reference-intro-auth')
  const button = [...panel.querySelectorAll('button')].find(({ textContent }) => textContent.includes('Authorize'))
  panel.scrollIntoView({ block: 'center' })
  button?.click()
}

const client = {
  'x-scalar-client-id': clientId,
  'x-scalar-redirect-uri': redirectUri,
  'x-usePkce': 'SHA-256',
  selectedScopes: scopes,
}
const others = ['c', 'clojure', 'csharp', 'dart', 'fsharp', 'go', 'http', 'java', 'julia', 'kotlin', 'node', 'objc', 'ocaml', 'php', 'powershell', 'python', 'r', 'ruby', 'rust', 'swift']
document.addEventListener('DOMContentLoaded', () => {
  document.getElementById('sign-in')?.addEventListener('click', signIn)
  const view = { component: firstPage, sidebar: { show: true, label: 'Your first request' } }
  Scalar.createApiReference('#reference', {
    url: '/docs/json',
    customFetch,
    plugins: [() => ({ name: 'first-page', extensions: [], views: { 'content.start': [view] } })],
    authentication: {
      preferredSecurityScheme: 'bearer',
      securitySchemes: clientId ? { oauth2: { flows: { authorizationCode: client } } } : {},
    },
    defaultHttpClient: { targetKey: 'shell', clientKey: 'curl' },
    hiddenClients: {
      ...Object.fromEntries(others.map((language) => [language, true])),
      shell: ['httpie', 'wget'],
      js: ['axios', 'jquery', 'ofetch', 'xhr'],
    },
    theme: 'none',
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
