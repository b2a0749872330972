import { html } from 'hono/html'
import type { OverviewDeps } from '../deps.ts'

type FirstPageDeps = Pick<OverviewDeps, 'publicUrl' | 'docsClientId' | 'clientsFolder'>

/** The first page's request in a language, as a reader copies it. `token` and `$TOKEN` stand for an access token. */
const samples = (publicUrl: string) => [
  {
    id: 'curl',
    label: 'curl',
    code: `curl ${publicUrl}/organizations \\
  -H "Authorization: Bearer $TOKEN"`,
  },
  {
    id: 'fetch',
    label: 'JavaScript',
    code: `const response = await fetch('${publicUrl}/organizations', {
  headers: { Authorization: \`Bearer \${token}\` },
})
const answer = await response.json()`,
  },
  {
    id: 'sdk',
    label: 'SDK',
    code: `import { listOrganizations, Platform, staticToken } from '@platform/sdk'

const platform = new Platform({
  baseUrl: '${publicUrl}',
  credential: staticToken(token),
})
const answer = await listOrganizations(platform)`,
  },
]

/** The shape of what the samples get. A test compares it with what the platform answers, like the error below. */
const answer = `{
  "items": [{
    "id": "0199a3f0-5b7c-7cc0-9d3f-2f6f5c1b7a10",
    "name": "Acme", "slug": "acme", "imageUrl": null,
    "createdAt": "2026-11-21T09:30:00.000Z",
    "updatedAt": "2026-11-21T09:30:00.000Z"
  }],
  "total": 1
}`

const error = '{ "error": "A bearer access token is required" }'

const exchange = (publicUrl: string): string => `curl ${publicUrl}/oauth2/token \\
  -d grant_type=client_credentials \\
  -d client_id=$ID -d client_secret=$SECRET`

/** What a reader copies to get a token where the page itself signs nobody in. */
function commands({ publicUrl, clientsFolder }: FirstPageDeps): string {
  const isServed = clientsFolder !== undefined
  const platform = isServed ? 'node platform.mjs' : 'platform'
  const download = isServed ? `curl -fsSO ${publicUrl}/docs/clients/platform.mjs\n` : ''
  return `${download}${platform} login --scope platform:api_keys:write \\
  --url ${publicUrl}
${platform} api POST /api-keys --body '{"name":"first",
  "applicationId":"'$APPLICATION'",
  "scopes":["platform:organizations:read"]}'
${exchange(publicUrl)}`
}

function tokenStep(deps: FirstPageDeps) {
  if (deps.docsClientId === undefined)
    return html`<div>
        <h2>Get a token</h2>
        <p>
          Sign in by the command line, create an API key for an application, and exchange the key.
          <code>access_token</code> of the answer is good for five minutes. To send requests from this page, paste it
          below, under Authentication.
        </p>
      </div>
      <pre><code>${commands(deps)}</code></pre>`
  return html`<div>
      <h2>Get a token</h2>
      <p>Sign in, and every request that you send from this page has your token.</p>
      <p><button id="sign-in" class="primary" type="button">Sign in</button></p>
    </div>
    <div>
      <p>
        A program exchanges <a href="#tag/api-keys/POST/api-keys">an API key</a>. <code>access_token</code> of the
        answer is good for five minutes.
      </p>
      <pre><code>${exchange(deps.publicUrl)}</code></pre>
    </div>`
}

/**
 * What a reader sees first: how to get a token, a request that works with its answer, and an error. It is rendered here, so that it
 * is there before Scalar is, and without a script too.
 */
export function renderFirstPage(deps: FirstPageDeps) {
  const { publicUrl, clientsFolder } = deps
  const sdk = clientsFolder === undefined ? 'SDK' : html`<a href="/docs/clients/checksums.txt">SDK</a>`
  return html`<section id="first-page" aria-labelledby="first-title">
    <div class="head">
      <h1 id="first-title">Your first request</h1>
      <p>The API is at <code>${publicUrl}</code>.</p>
    </div>
    <div class="step">${tokenStep(deps)}</div>
    <div class="step">
      <div>
        <h2>Send a request</h2>
        <p>
          This one lists your organizations. <code>TOKEN</code> stands for the token, which needs the scope
          <code>platform:organizations:read</code>. An API key is a member of none, so its list is empty.
        </p>
        <p>
          Each operation below has a sample in these languages. The ${sdk} also renews tokens and repeats what may be
          repeated.
        </p>
      </div>
      <div>
        <fieldset class="samples">
          <legend class="unseen">Language of the request</legend>
          <div class="tabs">
            ${samples(publicUrl).map(({ id, label }, i) => html`<label><input type="radio" name="language" value="${id}" ${i === 0 ? 'checked' : ''} />${label}</label>`)}
          </div>
          ${samples(publicUrl).map(({ id, code }) => html`<pre data-language="${id}"><code>${code}</code></pre>`)}
        </fieldset>
        <figure>
          <figcaption><span class="ok">200</span> The answer</figcaption>
          <pre><code>${answer}</code></pre>
        </figure>
      </div>
    </div>
    <div class="step">
      <div>
        <h2>Read an error</h2>
        <p>Branch on the status. The message is for a person; here the token is missing.</p>
      </div>
      <figure>
        <figcaption><span class="bad">401</span> The answer without a token</figcaption>
        <pre><code>${error}</code></pre>
      </figure>
    </div>
    <noscript>
      <p>The operations need JavaScript; their document is at <a href="/docs/json">/docs/json</a>.</p>
    </noscript>
  </section>`
}
